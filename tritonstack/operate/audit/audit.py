"""List the resources of environments and the stack that each belongs to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import model_serializer

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Internal, public
from tritonstack.files.project.names import environment_names
from tritonstack.operate.audit import resources as network
from tritonstack.operate.audit import services
from tritonstack.operate.audit.resources import (
    STACK_TAG,
    AuditScope,
    AwsResource,
    Key,
    Listing,
    UnreadableResource,
)
from tritonstack.operate.audit.tagged import NAMED, TAGGED, Lists, still_there, tagged
from tritonstack.operate.shared.aws import Cloud, is_absent, pages
from tritonstack.operate.shared.deployed import (
    DeployedEnvironment,
    Location,
    LocationFilter,
    find_deployed,
    require_locations,
)
from tritonstack.operate.shared.session import Session

LISTINGS: tuple[Listing, ...] = (
    *(Listing(directory.service, (directory.type,), directory.find) for directory in NAMED),
    Listing("cloudformation", ("AWS::CloudFormation::Stack",), services.stacks),
    Listing("kms", ("AWS::KMS::Key",), services.keys),
    Listing("ecr", ("AWS::ECR::Repository", "AWS::ECR::Image"), services.repositories),
    Listing("logs", ("AWS::Logs::LogGroup",), services.log_groups),
    Listing("sagemaker", ("AWS::SageMaker::ProcessingJob",), services.processing_jobs),
    Listing(
        "application-autoscaling",
        (
            "AWS::ApplicationAutoScaling::ScalableTarget",
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            "AWS::ApplicationAutoScaling::ScheduledAction",
        ),
        services.scaling,
    ),
    Listing("cloudwatch", ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"), services.alarms),
    Listing("sns", ("AWS::SNS::Topic", "AWS::SNS::Subscription"), services.topics),
    Listing("iam", ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"), services.roles),
    Listing("ssm", ("AWS::SSM::Parameter",), services.parameters),
    Listing("iam", ("AWS::IAM::OIDCProvider",), services.identity_providers),
    Listing("ec2", network.PART_TYPES, network.networks),
    Listing("ec2", network.IMAGE_TYPES, network.machine_images),
)


_AT_ONCE = 8
_BY_TAG = Listing(TAGGED, (), tagged)


@dataclass(frozen=True, order=True)
class Item:
    """One resource in the audit's scope."""

    type: str
    id: str
    stack: str | None
    """The stack that owns it; None if no existing stack does."""
    pending: bool = False


@dataclass(frozen=True, order=True)
class UnlistedService:
    """A listing that failed."""

    service: str
    message: str


@dataclass(frozen=True)
class Report:
    """The results of an audit."""

    items: Internal[tuple[Item, ...]]
    not_listed: tuple[UnlistedService, ...]
    """Failed listings; if there are any, the report may be incomplete."""
    not_described: tuple[UnreadableResource, ...] = ()
    """Resources that cannot be described, because their owner denies access."""

    @public
    def resources(self) -> list[Item]:
        """Return all resources except those with scheduled deletion."""
        return [item for item in self.items if not item.pending]

    @public
    def orphans(self) -> list[Item]:
        """Return the resources without a stack."""
        return [item for item in self.resources if item.stack is None]

    @public
    def pending_deletion(self) -> list[Item]:
        """Return the resources with scheduled deletion."""
        return [item for item in self.items if item.pending]


@dataclass(frozen=True)
class Ownership:
    """The owning stack per resource."""

    stacks: frozenset[str]
    """All existing stacks in scope."""
    owners: Mapping[Key, str]
    busy: frozenset[str] = frozenset()
    """Stacks with an operation in progress: their resources may not be listed yet."""

    def owner_of(self, resource: AwsResource) -> str | None:
        """Return a resource's stack: by CloudFormation's list, by tag, or by parent.

        Retained resources keep their stack tag, so the tag counts only for types with other CloudFormation
        names and during operations.
        """
        if resource.type == "AWS::CloudFormation::Stack":
            return resource.id
        if owner := self.owners.get(resource.key):
            return owner
        if (tag := resource.tags.get(naming.OWNER_TAG)) in self.stacks:
            return tag  # retained on purpose: a later deploy or `destroy` deletes it
        believed = self.busy if resource.type.startswith("AWS::") else self.stacks
        if (tag := resource.tags.get(STACK_TAG)) in believed:
            return tag
        return self.owners.get(resource.within) if resource.within else None


def find_resources(cloud: Cloud, scope: AuditScope, *, others: Iterable[str] = ()) -> Report:
    """Run all listings in parallel.

    `others` are the name prefixes of other environments with files.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ownership = pool.submit(read_ownership, cloud, scope)
        by_tag = pool.submit(_ask, cloud, scope, _BY_TAG)
        answers = list(pool.map(lambda listing: _ask(cloud, scope, listing), LISTINGS))
        owned = ownership.result()
    named = [item for answer in answers for item in answer.found]
    answers.append(_confirmed(cloud, {item.key for item in named}, by_tag.result()))
    resources = merge(item for answer in answers for item in answer.found)
    not_listed = sorted({unlisted for answer in answers for unlisted in answer.not_listed})
    unseen = tuple(item for answer in answers for item in answer.unseen)
    return Report(tuple(decide(resources, owned, scope, others=others)), tuple(not_listed), unseen)


@dataclass(frozen=True)
class _Answer:
    """Run a listing; return what it found before any error."""

    found: Sequence[AwsResource]
    unseen: Sequence[UnreadableResource] = ()
    not_listed: Sequence[UnlistedService] = ()


def _confirmed(cloud: Cloud, listed: Collection[Key], by_tag: _Answer) -> _Answer:
    """Return the resources found by tag, without deleted ones that only the tag listing still reports."""
    resources, not_listed, lists = [], list(by_tag.not_listed), Lists()
    for item in by_tag.found:
        try:
            present = item if item.key in listed else still_there(cloud, item, lists)
        except (ClientError, BotoCoreError) as error:
            present = item
            not_listed.append(UnlistedService(item.type, str(error)))
        if present:
            resources.append(present)
    return _Answer(resources, by_tag.unseen, not_listed)


def decide(
    resources: Iterable[AwsResource], owned: Ownership, scope: AuditScope, *, others: Iterable[str] = ()
) -> list[Item]:
    """Assign resources to stacks; leave out environments whose names merely share the prefix."""
    deployed = {naming.base_of_stack(stack) for stack in owned.stacks}
    foreign = [f"{base}-" for base in {*deployed, *others} if base is not None and base != scope.base]
    items = []
    for resource in resources:
        owner = owned.owner_of(resource)
        if not scope.whole and _belongs_to_others(resource, owner, scope, foreign):
            continue
        items.append(Item(resource.type, resource.id, owner, resource.pending))
    return sorted(items, key=lambda item: (item.type, item.id))


def merge(resources: Iterable[AwsResource]) -> list[AwsResource]:
    """Merge duplicates from several listings."""
    merged: dict[Key, AwsResource] = {}
    for resource in resources:
        earlier = merged.get(resource.key)
        merged[resource.key] = (
            resource
            if earlier is None
            else replace(
                earlier,
                tags={**earlier.tags, **resource.tags},
                within=earlier.within or resource.within,
                pending=earlier.pending or resource.pending,
            )
        )
    return list(merged.values())


def read_ownership(cloud: Cloud, scope: AuditScope) -> Ownership:
    """Return the resources of the stacks whose names begin with the base."""
    client = cloud.client("cloudformation")
    states = {
        stack["StackName"]: stack["StackStatus"]
        for stack in pages(client, "describe_stacks", "Stacks")
        if scope.names(stack["StackName"])
    }
    owners: dict[Key, str] = {}
    for name in states:
        try:
            resources = list(pages(client, "list_stack_resources", "StackResourceSummaries", StackName=name))
        except ClientError as error:
            if is_absent(error):
                continue  # deleted meanwhile
            raise
        owners |= {("AWS::CloudFormation::Stack", name): name, **_owned(name, resources)}
    busy = frozenset(name for name, status in states.items() if status.endswith("_IN_PROGRESS"))
    return Ownership(frozenset(states), owners, busy)


def _owned(stack: str, resources: Sequence[Mapping[str, Any]]) -> dict[Key, str]:
    owned: dict[Key, str] = {}
    for item in resources:
        physical = item.get("PhysicalResourceId")
        if physical and item["ResourceStatus"] != "DELETE_COMPLETE":
            owned[item["ResourceType"], physical] = stack
            # Resources created by services contain the name of the resource that they belong to.
            owned.setdefault((item["ResourceType"], physical.rpartition("/")[2]), stack)
    return owned


def _ask(cloud: Cloud, scope: AuditScope, listing: Listing) -> _Answer:
    resources: list[AwsResource] = []
    unseen: list[UnreadableResource] = []
    try:
        for item in listing.find(cloud, scope):
            if isinstance(item, UnreadableResource):
                unseen.append(item)
            else:
                resources.append(item)
    except (ClientError, BotoCoreError) as error:
        return _Answer(resources, unseen, [UnlistedService(listing.service, str(error))])
    return _Answer(resources, unseen)


def _belongs_to_others(
    resource: AwsResource, owner: str | None, scope: AuditScope, others: Sequence[str]
) -> bool:
    """Return whether a resource belongs to another environment with the same name prefix."""
    if owner is not None:
        return naming.base_of_stack(owner) not in (scope.base, None)
    if scope.tags and resource.tags.keys() >= scope.tags.keys():
        return not scope.tagged(resource.tags)
    segments = resource.id.replace("alias/", "").split("/")
    return any(word.startswith(other) for other in others for word in segments)


@dataclass(frozen=True)
class Audit:
    """The audit of one environment, or of every location of the project."""

    reports: Mapping[str, Report]
    """By environment name, or by location."""

    @property
    def clean(self) -> bool:
        """True if every resource belongs to a stack and every service answered."""
        return not any(report.orphans or report.not_listed for report in self.reports.values())

    @property
    def gone(self) -> bool:
        """True if nothing is left, except resources that await their deletion."""
        return self.clean and not any(report.resources for report in self.reports.values())

    @model_serializer
    def _by_subject(self) -> dict[str, Report]:
        return dict(self.reports)


def audit(
    session: Session,
    environment: str | None = None,
    *,
    instance: str | None = None,
    where: LocationFilter | None = None,
) -> Audit:
    """Audit an environment, or an instance of a template; all locations of the project by default."""
    where = where or LocationFilter()
    if environment is None:
        return Audit(_everywhere(session, require_locations(session.project, where)))
    deployed = find_deployed(session, environment, instance, where)
    report = _audit(session, deployed.cloud, _scope(deployed), _others(session, deployed))
    return Audit({deployed.name: report})


def _everywhere(session: Session, locations: Sequence[Location]) -> dict[str, Report]:
    """Return a report per location; one that is unreachable gets a report without any service."""
    reports, errors = dict[str, Report](), list[TritonstackError]()
    for location in locations:
        place = f"{location.prefix} in {location.account} {location.region}"
        subject = f"what begins with {location.prefix!r}"
        try:
            cloud = session.cloud_at(location.account, location.region, subject=subject)
        except TritonstackError as error:
            errors.append(error)
            reports[place] = Report((), (UnlistedService("every service", error.message),))
        else:
            scope = AuditScope(location.prefix, {"project": location.prefix}, whole=True)
            reports[place] = _audit(session, cloud, scope)
    if len(errors) == len(locations):
        raise errors[0]
    return reports


def _audit(session: Session, cloud: Cloud, scope: AuditScope, others: Iterable[str] = ()) -> Report:
    place = f"{cloud.account} {cloud.region}"
    with session.reporter.step(f"listing the resources of {scope.base} in {place}") as step:
        report = find_resources(cloud, scope, others=others)
        step.detail = f"{len(report.resources)} resources"
    return report


def _scope(deployed: DeployedEnvironment) -> AuditScope:
    prefix = deployed.base.removesuffix(f"-{deployed.name}")
    usual = {"project": prefix, "environment": deployed.name}
    tags = deployed.spec.tags if deployed.spec else {}
    return AuditScope(deployed.base, {key: tags.get(key, value) for key, value in usual.items()})


def _others(session: Session, deployed: DeployedEnvironment) -> list[str]:
    prefix = deployed.base.removesuffix(f"-{deployed.name}")
    names = [name for name in environment_names(session.project) if name != deployed.name]
    return [naming.environment_prefix(prefix=prefix, environment=name) for name in names]
