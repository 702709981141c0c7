"""What an instance of a template runs, brought into its own bucket from that of the environment whose lock it
runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catalog.build_images import endpoint_images
from catalog.locks import LockedArtifact, Replacement
from catalog.workspace import Workspace
from cli.artifacts import local_manifest
from cli.context import Context
from cli.promoting import Side, copy_all, has_bucket, lacking, lay_ground
from operations.artifacts import is_published
from operations.aws import Cloud
from operations.bucket_copying import copy_in_account
from operations.promotion import Artifact, Entry, words_of


def bring_artifacts(state: Context, workspace: Workspace, cloud: Cloud, *, bootstrap: bool) -> None:
    """Put into an instance's bucket what its endpoints run, as far as the lock's own environment has it.

    Within one account S3 copies it; from another it is fetched, checked and sent on, as a promotion does.
    What only this machine has, a deploy publishes.
    """
    to = Side(workspace, cloud)
    missing = lacking(to, list(_served(workspace)))
    here = workspace.spec.account == (source := state.workspace(workspace.lock_owner)).spec.account
    if not here:
        missing = [item for item in missing if not _is_on_this_machine(state, item)]
    if not missing:
        return
    read = state.cloud_to_read(source.spec, beside=workspace.spec, cloud=cloud)
    origin = Side(source, read)
    items = [item for item in missing if _is_there(origin, item)]
    if not items:
        return
    lay_ground(state, to, bootstrap=bootstrap)
    inside = [item for item in items if here and isinstance(item.entry, LockedArtifact)]
    _copy_inside(state, origin, to, inside)
    copy_all(state, origin, to, [item for item in items if item not in inside])


def _served(workspace: Workspace) -> Iterator[Entry]:
    seen = set[tuple[str, str]]()
    for name in workspace.spec.endpoints:
        for served in workspace.serves(name):
            target = workspace.target_for(served.model, served.instance)
            artifact = workspace.artifact_for(served.model, served.instance)
            if target and artifact and (served.model, target) not in seen:
                seen.add((served.model, target))
                yield Replacement(served.model, target, artifact, None)
    for image in endpoint_images(workspace.project, workspace.spec):
        locked = workspace.lock.record.images.get(image.folder, {}).get(image.kind)
        if locked:
            yield Replacement(image.folder, image.kind, locked, None)


def _is_there(origin: Side, item: Entry) -> bool:
    if not isinstance(item.entry, LockedArtifact):
        return True
    return has_bucket(origin) and is_published(
        origin.cloud, bucket=origin.bucket, model=item.name, artifact=item.entry
    )


def _is_on_this_machine(state: Context, item: Entry) -> bool:
    if not isinstance(item.entry, LockedArtifact):
        return False
    return local_manifest(state, item.name, item.entry.digest) is not None


def _copy_inside(state: Context, origin: Side, to: Side, items: Sequence[Entry]) -> None:
    for item in items:
        with state.output.step(f"copying {words_of(item)} from {origin.bucket}"):
            artifact: Artifact = Replacement(item.name, item.key, _artifact_of(item), None)
            copy_in_account(origin.artifact(artifact), cloud=to.cloud, bucket=to.bucket)


def _artifact_of(item: Entry) -> LockedArtifact:
    assert isinstance(item.entry, LockedArtifact)  # noqa: S101 - the caller has chosen them so
    return item.entry
