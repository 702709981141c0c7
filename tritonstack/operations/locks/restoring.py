"""What a rollback does in the cloud: fetches back what was deleted, and writes down that it was done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tritonstack.base.embedded_accounts import is_embedded
from tritonstack.base.naming import artifact_prefix
from tritonstack.base.revisions import commit_id
from tritonstack.operations.artifacts import is_published
from tritonstack.operations.aws import Cloud
from tritonstack.operations.builds.images import is_image_there
from tritonstack.operations.events import new_event, read_events, record_event
from tritonstack.operations.locks.artifact_versions import bring_back
from tritonstack.operations.locks.rollback import RollbackPlan
from tritonstack.operations.locks.rollback_targets import RollbackError, Step, shown
from tritonstack.project.custom_images import locked_uri
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event, TouchedArtifact, TouchedImage
from tritonstack.records.locks import ImageKind, LockedArtifact, LockedImage, RolledBack
from tritonstack.records.manifests import MANIFEST_NAME


def fetch_back(cloud: Cloud, workspace: Workspace, step: Step, artifacts_dir: Path) -> bool:
    """See that what is gone back to is there to be deployed; tells whether it had been deleted.

    An artifact that only this machine has is there as well: a deploy publishes it.
    """
    entry, name = step.then.entry, step.slot.name
    if isinstance(entry, LockedImage):
        _require_image(cloud, workspace, entry)
        return False
    if not isinstance(entry, LockedArtifact):
        return False
    bucket = workspace.spec.artifact_bucket
    # First of all: an archive may have been deleted while its manifest still stands.
    brought = bring_back(cloud, bucket=bucket, model=name, digest=entry.digest)
    if is_published(cloud, bucket=bucket, model=name, artifact=entry):
        return brought
    if not brought and (artifacts_dir / artifact_prefix(name, entry.digest) / MANIFEST_NAME).is_file():
        return False
    raise RollbackError(
        f"the artifact {shown(entry.digest)} of {name!r} is gone from s3://{bucket}, its old versions too",
        remedy=_build_it_again(workspace, step),
    )


def is_recorded(cloud: Cloud, workspace: Workspace, back: RolledBack) -> bool:
    """Whether a rollback that the lock tells of was finished."""
    bucket = workspace.spec.artifact_bucket
    events = read_events(cloud, bucket, kinds=["rolled-back"], since=back.at)
    return any((event.at, event.by) == (back.at, back.by) for event in events)


def record_rollback(cloud: Cloud, workspace: Workspace, plan: RollbackPlan, back: RolledBack) -> Event:
    """Write down that it is done, under the lock's own time: however often it is said, it is one event."""
    event = new_event("rolled-back", workspace, endpoints=plan.concerned, note=_note(plan))
    # What else those endpoints serve has not gone back.
    gone = {"artifacts": tuple(_artifacts(plan)), "images": tuple(_images(plan))}
    event = event.model_copy(
        update={"at": back.at, "by": back.by, "commit": back.commit, "uncommitted": back.uncommitted, **gone}
    )
    record_event(cloud, workspace.spec.artifact_bucket, event)
    return event


def _note(plan: RollbackPlan) -> str:
    return "; ".join(step.words for step in plan.steps)


def _artifacts(plan: RollbackPlan) -> Iterator[TouchedArtifact]:
    for step in plan.steps:
        if not step.slot.image:
            yield TouchedArtifact(model=step.slot.name, target=step.then.key, digest=step.then.entry.digest)


def _images(plan: RollbackPlan) -> Iterator[TouchedImage]:
    for step in plan.steps:
        if step.slot.image:
            kind: ImageKind = "gpu" if step.then.key == "gpu" else "cpu"
            yield TouchedImage(folder=step.slot.name, kind=kind, digest=step.then.entry.digest)


def _require_image(cloud: Cloud, workspace: Workspace, image: LockedImage) -> None:
    if is_embedded(workspace.spec.account):
        return  # a Docker engine holds it, and the deploy says so if it does not
    uri = locked_uri(workspace.spec, image)
    if not is_image_there(cloud, uri):
        raise RollbackError(
            f"there is no image {uri}, and a registry brings none back",
            remedy=f"build it again from a commit that made {image.tag}",
        )


def _build_it_again(workspace: Workspace, step: Step) -> str:
    made = step.then.entry.built
    commit = (
        f"commit {commit_id(made.commit)}" if made and made.commit else "the commit that it was built from"
    )
    return f"run `tritonstack build {workspace.spec.name} {step.slot.name}` in a checkout of {commit}"
