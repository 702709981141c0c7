"""Prepare and record a rollback: restore deleted artifacts and write the event."""

from __future__ import annotations

from pathlib import Path

from tritonstack.base.error_kinds import ArtifactNotFoundError
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.revisions import commit_id
from tritonstack.operations.artifacts import is_published
from tritonstack.operations.aws import Cloud
from tritonstack.operations.builds.images import is_image_there
from tritonstack.operations.events import lock_event, read_events, record_event
from tritonstack.operations.locks.artifact_versions import restore_artifact
from tritonstack.operations.locks.rollback import RollbackPlan
from tritonstack.operations.locks.rollback_targets import RollbackError, RollbackStep
from tritonstack.project.custom_images import locked_uri
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.records.locks import LockedImage, RolledBack
from tritonstack.records.manifests import MANIFEST_NAME


def ensure_available(
    cloud: Cloud, workspace: Workspace, step: RollbackStep, artifacts_dir: Path, *, has_registry: bool
) -> bool:
    """Check that a rollback target is available; return whether it was restored.

    An artifact that exists only locally is available: the deployment publishes it. Without a registry, images
    are in the local Docker engine, and the deployment checks them.
    """
    entry, name = step.then.entry, step.slot.name
    if isinstance(entry, LockedImage):
        if has_registry:
            _require_image(cloud, workspace, entry)
        return False
    bucket = workspace.spec.artifact_bucket
    # Check this first: an archive may be deleted while its manifest exists.
    brought = restore_artifact(cloud, bucket=bucket, model=name, digest=entry.digest)
    if is_published(cloud, bucket=bucket, model=name, artifact=entry):
        return brought
    if not brought and (artifacts_dir / artifact_prefix(name, entry.digest) / MANIFEST_NAME).is_file():
        return False
    raise RollbackError(
        f"artifact {short_digest(entry.digest)} of {name!r} is gone from s3://{bucket}, "
        "including its old versions",
        remedy=_build_it_again(workspace, step),
        code=ArtifactNotFoundError.code,
    )


def is_recorded(cloud: Cloud, workspace: Workspace, back: RolledBack) -> bool:
    """Return whether the rollback in the lock was completed."""
    bucket = workspace.spec.artifact_bucket
    events = read_events(cloud, bucket, kinds=["rolled-back"], since=back.at)
    return any((event.at, event.by) == (back.at, back.by) for event in events)


def record_rollback(cloud: Cloud, workspace: Workspace, plan: RollbackPlan, back: RolledBack) -> Event:
    """Write the rollback event; other models of those endpoints were not rolled back."""
    event = lock_event(
        "rolled-back",
        workspace,
        back,
        endpoints=plan.concerned,
        entries=((step.slot.name, step.then.key, step.then.entry) for step in plan.steps),
        note="; ".join(step.description for step in plan.steps),
    )
    record_event(cloud, workspace.spec.artifact_bucket, event)
    return event


def _require_image(cloud: Cloud, workspace: Workspace, image: LockedImage) -> None:
    uri = locked_uri(workspace.spec, image)
    if not is_image_there(cloud, uri):
        raise RollbackError(
            f"image not found: {uri}; registries cannot restore deleted images",
            remedy=f"rebuild it from a commit that produced {image.tag}",
            code=ArtifactNotFoundError.code,
        )


def _build_it_again(workspace: Workspace, step: RollbackStep) -> str:
    built = step.then.entry.built
    commit = f"commit {commit_id(built.commit)}" if built and built.commit else "the commit that built it"
    return f"run `tritonstack build {workspace.spec.name} {step.slot.name}` in a checkout of {commit}"
