"""Combine a request for an instance of a template with the instance that is deployed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base.error_kinds import CommandLineError, UnusableNameError
from tritonstack.files.environment.tags import (
    LifetimeError,
    moment_text,
    parse_lifetime,
    parse_moment,
    tag_text,
)
from tritonstack.files.environment.templates import Instance, Template
from tritonstack.files.project.custom_images import endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.artifacts.copying import EnvironmentAccess, copy_all, lacking
from tritonstack.operate.artifacts.publishing import local_manifest
from tritonstack.operate.artifacts.transfers import copy_in_account
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.session import Session

# S3 copies within an account; across accounts, artifacts are downloaded, checked, and uploaded.
# A deploy publishes artifacts that exist only on this machine.


@dataclass(frozen=True)
class BorrowedArtifacts:
    """Artifacts and images that an instance lacks and another environment has."""

    source: EnvironmentAccess
    target: EnvironmentAccess
    items: tuple[LockChange, ...]

    @property
    def digests(self) -> set[str]:
        """Their digests."""
        return {item.entry.digest for item in self.items}

    def copy(self, session: Session) -> None:
        """Copy everything; the target bucket must exist."""
        items = self.items
        if self.source.workspace.spec.account == self.target.workspace.spec.account:
            for item in items:
                if isinstance(item.entry, LockedArtifact):
                    artifact = self.source.artifact(item.name, item.key, item.entry)
                    with session.reporter.step(f"copying {item.describe()} from {self.source.bucket}"):
                        copy_in_account(artifact, cloud=self.target.cloud, bucket=self.target.bucket)
            items = tuple(item for item in items if item.is_image)
        copy_all(session, self.source, self.target, items)


def find_borrowed(session: Session, workspace: Workspace, cloud: Cloud) -> BorrowedArtifacts | None:
    """Return what an instance can copy; None if it lacks nothing or the source has nothing."""
    target = EnvironmentAccess(workspace, cloud)
    missing = lacking(target, list(_run_by(workspace)))
    if not missing:
        return None
    owner = session.workspace(workspace.lock_owner)
    if owner.spec.account != workspace.spec.account:
        # Another account needs other credentials; local artifacts avoid that.
        missing = [item for item in missing if not _is_on_this_machine(session, item)]
    if not missing:
        return None
    source = EnvironmentAccess(owner, session.cloud_to_read(owner.spec, beside=workspace.spec, cloud=cloud))
    lent = tuple(item for item in missing if item.is_image or not lacking(source, [item]))
    return BorrowedArtifacts(source, target, lent) if lent else None


def _run_by(workspace: Workspace) -> Iterator[LockChange]:
    """Yield each artifact and image in the lock that endpoints run, once."""
    artifacts = set[tuple[str, str]]()
    for name in workspace.spec.endpoints:
        for served in workspace.serves(name):
            target = workspace.target_for(served.model, served.instance)
            artifact = workspace.artifact_for(served.model, served.instance)
            if target and artifact and (served.model, target) not in artifacts:
                artifacts.add((served.model, target))
                yield LockChange(served.model, target, artifact, None)
    for image in endpoint_images(workspace.project, workspace.spec):
        if locked := workspace.lock.record.images.get(image.folder, {}).get(image.kind):
            yield LockChange(image.folder, image.kind, locked, None)


def _is_on_this_machine(session: Session, item: LockChange) -> bool:
    if not isinstance(item.entry, LockedArtifact):
        return False
    return local_manifest(session, item.name, item.entry.digest) is not None


@dataclass(frozen=True)
class InstanceRequest:
    """The options for an instance of a template; None keeps the deployed value."""

    name: str
    ttl: str | None = None
    owner: str | None = None
    settings: Mapping[str, str] | None = None


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` options."""
    parsed = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key:
            raise CommandLineError(
                f"--set {setting!r} is incomplete", remedy="pass --set <parameter>=<value>"
            )
        parsed[key] = value
    return parsed


def plan_instance(
    template: Template, request: InstanceRequest, *, deployed: Instance | None, actor: str, now: datetime
) -> Instance:
    """Return the instance to deploy; owner, expiry, and parameters that are not requested stay."""
    if deployed is not None and deployed.template != template.name:
        raise UnusableNameError(
            f"{request.name!r} is already an instance of {deployed.template}",
            remedy=f"choose another --name, or run `tritonstack destroy {deployed.template} "
            f"--name {request.name}` first",
        )
    current = dict(deployed.parameters) if deployed else {}
    parameters = current | template.parameters(request.settings or {})
    defaults = template.head.parameters
    return Instance(
        template=template.name,
        name=request.name,
        owner=tag_text(request.owner or (deployed.owner if deployed else actor)) or "unknown",
        expires=_expires(template, request, deployed, now),
        # Values equal to the template's defaults follow the template when it changes.
        parameters={name: value for name, value in sorted(parameters.items()) if defaults.get(name) != value},
    )


def _expires(template: Template, request: InstanceRequest, deployed: Instance | None, now: datetime) -> str:
    if request.ttl is None and deployed is not None:
        if parse_moment(deployed.expires) <= now:
            raise LifetimeError(
                f"{request.name!r} expired at {deployed.expires} and may be being destroyed",
                remedy="extend it with --ttl, for example --ttl 4h",
            )
        return deployed.expires
    try:
        longest = parse_lifetime(template.head.longest)
        length = parse_lifetime(request.ttl) if request.ttl else longest
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise CommandLineError(f"--ttl: {text}", remedy=remedy) from None
    if length > longest:
        raise LifetimeError(
            f"--ttl {request.ttl} exceeds the maximum for instances of {template.name}",
            remedy=f"choose at most {template.head.longest}; redeploy with --ttl to extend it later",
        )
    return moment_text((now + length).astimezone(UTC))
