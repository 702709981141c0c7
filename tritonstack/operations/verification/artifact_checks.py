"""Check that locked artifacts exist where endpoints fetch them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tritonstack.base import naming
from tritonstack.base.files import short_digest
from tritonstack.operations.artifacts import find_object, is_archive_of
from tritonstack.operations.aws import Cloud, in_parallel
from tritonstack.operations.model_prefix import model_copies
from tritonstack.operations.verification.checks import Check
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE
from tritonstack.spec.endpoints.endpoint import MultiModelEndpoint


@dataclass(frozen=True)
class Placed:
    """An archive and its expected location."""

    model: str
    artifact: LockedArtifact
    key: str


def artifact_check(cloud: Cloud, workspace: Workspace, name: str) -> Check:
    """Check all archives that an endpoint fetches at startup or on demand."""
    s3, bucket = cloud.client("s3"), workspace.spec.artifact_bucket
    placed = places(workspace, name)
    heads = in_parallel(lambda place: find_object(s3, bucket, place.key), placed)
    failures = tuple(
        failure
        for place, head in zip(placed, heads, strict=True)
        if (failure := place_failure(place, head, bucket=bucket))
    )
    multi_model = isinstance(workspace.spec.endpoints[name], MultiModelEndpoint)
    place = "at the model prefix" if multi_model else "in place"
    detail = f"{len(placed) - len(failures)} of {len(placed)} {place}"
    return Check("artifacts", failures, detail=detail, compared=2 * len(placed))


def places(workspace: Workspace, name: str) -> list[Placed]:
    """Return the expected archive locations of an endpoint's models."""
    if isinstance(workspace.spec.endpoints[name], MultiModelEndpoint):
        copies = [copy for copy in model_copies(workspace) if copy.endpoint == name]
        return [Placed(copy.model, copy.artifact, copy.key) for copy in copies]
    return list({place.key: place for place in _published(workspace, name)}.values())


def place_failure(place: Placed, head: dict[str, Any] | None, *, bucket: str) -> str | None:
    """Return the failure of a stored object, by its S3 metadata."""
    url = f"s3://{bucket}/{place.key}"
    if head is None:
        return f"{place.model}: artifact not found at {url}"
    if is_archive_of(place.artifact, head):
        return None
    note = head.get("Metadata", {}).get(DIGEST_NOTE, "none")
    return (
        f"{place.model}: the object at {url} is not the locked archive: "
        f"got {head['ContentLength']} bytes with recorded digest {short_digest(note)}, expected "
        f"{place.artifact.archive_bytes} with {short_digest(place.artifact.digest)}"
    )


def _published(workspace: Workspace, name: str) -> Iterator[Placed]:
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        if artifact is not None:
            prefix = naming.artifact_prefix(served.model, artifact.digest)
            yield Placed(served.model, artifact, f"{prefix}/{ARCHIVE_NAME}")
