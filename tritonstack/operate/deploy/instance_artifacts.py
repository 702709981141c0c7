"""Copy the artifacts of an instance from the environment whose lock it runs.

S3 copies within an account; across accounts, artifacts are downloaded, checked, and uploaded.
A deploy publishes artifacts that exist only on this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tritonstack.files.project.custom_images import endpoint_images
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import LockChange
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.operate.artifacts.copying import EnvironmentAccess, copy_all, lacking
from tritonstack.operate.artifacts.publishing import local_manifest
from tritonstack.operate.artifacts.transfers import copy_in_account
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.session import Session


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
