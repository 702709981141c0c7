"""Prepare and record a rollback: restore deleted artifacts and write the event.

Artifacts can be restored within a month after their deletion: the last version is copied over the delete
marker. Removing the marker would need permission to delete versions, which no deployer has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tritonstack.base.error_kinds import ArtifactNotFoundError, NotDeployedError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.base.naming import SUPERSEDED_TAG, artifact_prefix
from tritonstack.base.revisions import commit_id
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.files.records.locks import LockedImage, RolledBack
from tritonstack.files.records.manifests import MANIFEST_NAME
from tritonstack.operate.jobs.images import is_image_there
from tritonstack.operate.rollback.rollback_targets import RollbackError, RollbackPlan, RollbackStep
from tritonstack.operate.shared.artifacts import copy_object, is_published
from tritonstack.operate.shared.aws import Cloud, if_present
from tritonstack.operate.shared.events import lock_event, read_events, record_event


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


def restore_artifact(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Restore a deleted artifact, its manifest last; return whether anything was restored.

    Can be interrupted and repeated.
    """
    s3 = cloud.client("s3")
    deleted = _deleted(s3, bucket, f"{artifact_prefix(model, digest)}/")
    for key in sorted(deleted, key=lambda key: key.endswith(f"/{MANIFEST_NAME}")):
        _copy_over_itself(s3, bucket, key, deleted[key])
    return bool(deleted)


def _copy_over_itself(s3: Any, bucket: str, key: str, version: str) -> None:
    """Copy it as published, without the `superseded` tag, which would expire it again."""
    origin = {"Bucket": bucket, "Key": key, "VersionId": version}
    head, tags = s3.head_object(**origin), s3.get_object_tagging(**origin)["TagSet"]
    other_tags = {tag["Key"]: tag["Value"] for tag in tags if tag["Key"] != SUPERSEDED_TAG[0]}
    settings = {
        "ContentType": head["ContentType"],
        "Metadata": head["Metadata"],
        "TaggingDirective": "REPLACE",
        "Tagging": urlencode(other_tags),
    }
    copy_object(s3, origin, bucket=bucket, settings=settings)


def _deleted(s3: Any, bucket: str, prefix: str) -> dict[str, str]:
    """Return the latest version of each key that a delete marker hides."""
    listing = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
    pages = if_present(lambda: list(listing))
    if pages is None:
        raise TritonstackError(
            f"bucket {bucket} does not exist",
            remedy="the environment is not deployed, so there is nothing to roll back",
            code=NotDeployedError.code,
        )
    latest: dict[str, str] = {}
    for item in (item for page in pages for item in page.get("Versions", ())):
        latest.setdefault(item["Key"], item["VersionId"])  # S3 lists the latest version of a key first
    markers = (item for page in pages for item in page.get("DeleteMarkers", ()))
    hidden = {item["Key"] for item in markers if item["IsLatest"]}
    return {key: latest[key] for key in sorted(hidden & set(latest))}
