"""Ask an account, before anything is created, for the images, quotas, and zones that an environment needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.error_kinds import RegionError
from tritonstack.base.errors import InvalidFilesError, TritonstackError, aws_error_code, aws_error_message
from tritonstack.base.paths import Project
from tritonstack.base.results import Internal, public
from tritonstack.facts.images import image_uri
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.network import NetworkSpec, NewVpc
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.names import environment_names, require_known
from tritonstack.files.project.quotas import Quota, needed_quotas
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import Cloud, if_present, in_parallel, pages
from tritonstack.operate.shared.local_cloud import has_registry
from tritonstack.operate.shared.session import Session
from tritonstack.operate.shared.stacks import environment_stacks

Kind = Literal["image", "quota", "zones"]
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


@dataclass(frozen=True)
class PreflightCheck:
    """A row: something that the environment needs, and what the account has."""

    kind: Kind
    subject: str
    needed: str
    found: str
    status: Literal["ok", "warning", "failed", "unchecked"]
    """`unchecked` if AWS does not say, or the credentials lack the permission to ask."""
    help: str = ""


@dataclass(frozen=True)
class Preflight:
    """Everything that an environment needs from its account and region."""

    environment: str
    account: str
    region: str
    checks: tuple[PreflightCheck, ...]

    @property
    def failed(self) -> tuple[PreflightCheck, ...]:
        """Return what makes a deployment fail."""
        return tuple(check for check in self.checks if check.status == "failed")

    @property
    def complete(self) -> bool:
        """Return whether the account has everything."""
        return all(check.status == "ok" for check in self.checks)

    def table(self) -> str:
        """Return all checks as a table, each with its remedy."""
        rows = [("", "needed", self.account, "")]
        rows += [
            (f"{entry.kind} {entry.subject}", entry.needed, entry.found, entry.status)
            for entry in self.checks
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            "  ".join(f"{text:<{width}}" for text, width in zip(row, (*widths, 0), strict=True)).rstrip()
            for row in rows
        ]
        for line, check in zip(range(len(lines) - 1, 0, -1), reversed(self.checks), strict=True):
            if check.help:
                lines.insert(line + 1, f"  {check.help}")
        return "\n".join(lines)


class PreflightError(TritonstackError):
    """An account or region lacks what an environment needs; nothing was created."""

    code = RegionError.code

    def __init__(self, preflights: Iterable[Preflight]) -> None:
        failed = [(report, check) for report in preflights for check in report.failed]
        lines = [
            f"{report.environment}: {check.kind} {check.subject}: needed {check.needed}, "
            f"account {report.account} has {check.found} in {report.region}"
            for report, check in failed
        ]
        helps = dict.fromkeys(check.help for _, check in failed if check.help)
        super().__init__("\n".join(lines), remedy="; ".join(helps) or None)


@dataclass(frozen=True)
class AccountQuota(Quota):
    """A quota that an environment needs, and the account's."""

    region: Internal[str] = ""
    code: str | None = None
    account_value: float | None = None
    """None if AWS lists no quota with this name, or it was not read."""

    @public
    def request(self) -> str | None:
        """The command that requests what is missing; None if nothing is."""
        if self.code is None or self.account_value is None or self.account_value >= self.value:
            return None
        return (
            f"aws service-quotas request-service-quota-increase --service-code {self.service} "
            f"--quota-code {self.code} --desired-value {self.value} --region {self.region}"
        )

    def check(self) -> PreflightCheck:
        """Return the row of a preflight."""
        code = f" {self.code}" if self.code else ""
        subject, peak = f"{self.name} ({self.service}{code})", f"{self.value}"
        if 0 < self.least < self.value:
            peak = f"{self.least}, {self.value} at peak"
        if self.account_value is None:
            return PreflightCheck("quota", subject, peak, "not listed", "unchecked")
        status: Literal["ok", "warning", "failed"] = "ok"
        if self.account_value < self.value:
            status = "failed" if self.account_value < self.least else "warning"
        return PreflightCheck("quota", subject, peak, f"{self.account_value:g}", status, self.request or "")


def preflight(cloud: Cloud, workspace: Workspace, *, own_images: bool) -> Preflight:
    """Compare an environment with its account and region; reads only.

    `own_images`: whether the account's registry has the custom images.
    """
    spec = workspace.spec
    parts = [
        *(
            _asked("image", uri, "ecr", partial(_image_checks, cloud, uri))
            for uri in _images(workspace, own_images=own_images)
        ),
        _asked("quota", spec.region, "servicequotas", partial(_quota_checks, cloud, spec)),
        _asked("zones", spec.region, "ec2", partial(_zone_checks, cloud, spec)),
    ]
    checks = [check for part in in_parallel(lambda ask: ask(), parts) for check in part]
    return Preflight(spec.name, cloud.account, cloud.region, tuple(checks))


def read_quotas(cloud: Cloud, spec: EnvironmentSpec, *, deployed: Collection[str] = ()) -> list[AccountQuota]:
    """Return the quotas that an environment needs, with the account's values.

    `deployed` names the stacks that exist: what they have already counts against the quotas.
    """
    needed = needed_quotas(spec, deployed=deployed)
    services = dict.fromkeys(quota.service for quota in needed)
    client = cloud.client("service-quotas")

    def read(service: str) -> dict[str, Any]:
        return _quotas_by_name(
            client, service, {quota.name.casefold() for quota in needed if quota.service == service}
        )

    by_service = dict(zip(services, in_parallel(read, services), strict=True))
    quotas = []
    for quota in needed:
        listed = by_service[quota.service].get(quota.name.casefold(), {})
        quotas.append(
            AccountQuota(
                **vars(quota),
                region=spec.region,
                code=listed.get("QuotaCode"),
                account_value=listed.get("Value"),
            )
        )
    return quotas


def _quota_checks(cloud: Cloud, spec: EnvironmentSpec) -> Iterator[PreflightCheck]:
    deployed = [stack.name for stack in environment_stacks(cloud, spec.base) if stack.was_created]
    return (quota.check() for quota in read_quotas(cloud, spec, deployed=deployed))


def _quotas_by_name(client: Any, service: str, names: set[str]) -> dict[str, Any]:
    """Return a service's quotas by name; AWS lists some of them only with their default values."""
    quotas: dict[str, Any] = {}
    for operation in ("list_service_quotas", "list_aws_default_service_quotas"):
        for quota in pages(client, operation, "Quotas", ServiceCode=service):
            name = quota["QuotaName"].casefold()
            if name in names:
                quotas.setdefault(name, quota)
            if len(quotas) == len(names):  # SageMaker alone has thousands
                return quotas
    return quotas


def _images(workspace: Workspace, *, own_images: bool) -> list[str]:
    spec = workspace.spec
    uris: list[str] = []
    for name, endpoint in spec.endpoints.items():
        for variant in endpoint.variants:
            gpu = bool(variant.instance.gpus)
            if endpoint.image is None:
                uris.append(image_uri(region=spec.region, release=spec.triton_release, gpu=gpu))
            elif own_images and (locked := workspace.image_for(name, variant.instance)):
                uris.append(locked_uri(spec, locked))
    return list(dict.fromkeys(uris))


def _image_checks(cloud: Cloud, uri: str) -> Iterator[PreflightCheck]:
    registry, _, path = uri.partition("/")
    repository, _, digest = path.partition("@")
    repository, _, tag = repository.partition(":")
    image_id = {"imageDigest": digest} if digest else {"imageTag": tag}
    # A registry of another account allows what a pull needs, so not DescribeImages.
    answer = if_present(
        cloud.client("ecr").batch_get_image,
        registryId=registry.partition(".")[0],
        repositoryName=repository,
        imageIds=[image_id],
    )
    if answer is None:
        yield PreflightCheck("image", uri, "1", "no such repository", "failed")
        return
    if answer["images"]:
        yield PreflightCheck("image", uri, "1", "1", "ok")
        return
    reason = answer["failures"][0]["failureCode"]
    missing = reason in ("ImageNotFound", "ImageTagDoesNotMatchDigest")
    help_text = "choose another `triton_release`" if missing and not digest else ""
    yield PreflightCheck("image", uri, "1", reason, "failed" if missing else "unchecked", help_text)


def _zone_checks(cloud: Cloud, spec: EnvironmentSpec) -> Iterator[PreflightCheck]:
    """Compare the zones of the environment's subnets with those that have its instance types.

    Without a network, SageMaker chooses the zones. EC2's list only resembles SageMaker's, so that a missing
    type is never a certain failure.
    """
    types = sorted({v.instance.name.removeprefix("ml.") for e in spec.endpoints.values() for v in e.variants})
    if spec.network is None or not types:
        return
    ec2 = cloud.client("ec2")
    zones = _network_zones(ec2, spec.network)
    if isinstance(zones, PreflightCheck):
        yield zones
        return
    offered: dict[str, set[str]] = {name: set() for name in types}
    of_types = [{"Name": "instance-type", "Values": types}]
    for offering in pages(
        ec2,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone-id",
        Filters=of_types,
    ):
        offered[offering["InstanceType"]].add(offering["Location"])
    for name, places in offered.items():
        yield _zone_check(f"ml.{name}", sorted(places), zones)


def _zone_check(instance: str, places: Sequence[str], zones: Sequence[str]) -> PreflightCheck:
    there, needed = ", ".join(places), ", ".join(zones)
    if not places:
        return PreflightCheck("zones", instance, needed, "not in EC2's list", "unchecked")
    if set(zones) <= set(places):
        return PreflightCheck("zones", instance, needed, there, "ok")
    help_text = f"use subnets in {there}, for a new network with `availability_zone_ids`"
    return PreflightCheck("zones", instance, needed, there, "warning", help_text)


def _network_zones(ec2: Any, network: NetworkSpec) -> list[str] | PreflightCheck:
    """Return the zones of an environment's subnets, or what is wrong with them."""
    if network.existing is not None:
        subnet_ids = list(network.existing.subnet_ids)
        try:
            subnets = ec2.describe_subnets(SubnetIds=subnet_ids)["Subnets"]
        except ClientError as error:
            if aws_error_code(error) != "InvalidSubnetID.NotFound":
                raise
            message = aws_error_message(error)
            return PreflightCheck("zones", "subnets", ", ".join(subnet_ids), message, "failed")
        return sorted({subnet["AvailabilityZoneId"] for subnet in subnets})
    created = network.create or NewVpc()
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    listed = ec2.describe_availability_zones(Filters=filters)["AvailabilityZones"]
    # In the order of CloudFormation's Fn::GetAZs.
    ids = [zone["ZoneId"] for zone in sorted(listed, key=lambda zone: str(zone["ZoneName"]))]
    selected = created.availability_zone_ids or ids[: created.zones]
    if set(selected) <= set(ids):
        return list(selected)
    needed, zones = ", ".join(selected), ", ".join(sorted(ids))
    return PreflightCheck("zones", "availability_zone_ids", needed, zones, "failed", f"choose of {zones}")


def _asked(
    kind: Kind, subject: str, service: str, ask: Callable[[], Iterable[PreflightCheck]]
) -> Callable[[], list[PreflightCheck]]:
    """Return the question, which answers `unchecked` if AWS does not answer it."""

    def answer() -> list[PreflightCheck]:
        try:
            return list(ask())
        except ClientError as error:
            denied = aws_error_code(error) in _DENIED
            reason = f"no permission {service}:{error.operation_name}" if denied else str(error)
        except BotoCoreError as error:
            reason = str(error)
        return [PreflightCheck(kind, subject, "-", reason, "unchecked")]

    return answer


def require_built(workspace: Workspace) -> None:
    """Raise InvalidFilesError if the lock lacks an artifact that an endpoint serves."""
    if violations := unbuilt(workspace):
        raise InvalidFilesError(violations)


def check_account(session: Session, workspace: Workspace, cloud: Cloud) -> Preflight:
    """Compare an environment with its account and region; report a table unless everything is available."""
    with session.reporter.step("checking images, quotas, and zones") as step:
        # An instance gets its images only when it is deployed, as copies of those of its lock's environment.
        own_images = has_registry(workspace.spec) and workspace.instance is None
        report = preflight(cloud, workspace, own_images=own_images)
        available = [check for check in report.checks if check.status == "ok"]
        step.detail = f"{len(available)} of {len(report.checks)} available"
    if not report.complete:
        session.reporter.note(report.table())
    return report


def require_available(session: Session, workspace: Workspace, cloud: Cloud) -> None:
    """Raise PreflightError if the account or region lacks what a deployment needs."""
    report = check_account(session, workspace, cloud)
    if report.failed:
        raise PreflightError([report])


def chosen_environments(project: Project, names: Collection[str]) -> list[str]:
    """Return the permanent environments of a project with these names, all by default; reject others."""
    existing = environment_names(project)
    for name in names:
        require_known(name, existing, "unknown environment", heading="available")
    return [name for name in existing if not names or name in names]


def require_endpoint(workspace: Workspace, name: str) -> None:
    """Raise UsageError if the environment has no endpoint of this name."""
    require_known(name, workspace.spec.endpoints, f"environment {workspace.spec.name!r} has no endpoint")
