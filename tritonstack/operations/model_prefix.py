"""Copy model artifacts below the prefix of a multi-model endpoint in the artifact bucket.

S3 copies are atomic, so all objects below the prefix are complete. Copies are never deleted: callers may
still request a version that the lock no longer names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from tritonstack.base import naming
from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.operations.artifacts import copy_object, find_object, is_archive_of
from tritonstack.operations.aws import Cloud, list_if_present
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE
from tritonstack.spec.endpoints.endpoint import MultiModelEndpoint

_AT_ONCE = 8

Outcome = Literal["there", "copied", "replaced"]


@dataclass(frozen=True)
class ModelCopy:
    """One artifact that must exist below one endpoint's prefix."""

    endpoint: str
    """The endpoint's name in the environment's file."""
    model: str
    artifact: LockedArtifact
    source: str
    """The key of the artifact."""
    key: str
    """The key of the copy."""


@dataclass(frozen=True)
class CopiedModel:
    """A finished copy and its duration."""

    copy: ModelCopy
    outcome: Outcome


def model_copies(workspace: Workspace, *, models: Collection[str] | None = None) -> list[ModelCopy]:
    """Return the copies that an environment's lock requires, in a fixed order.

    `models` limits them to some models. Models without an artifact are skipped.
    """
    copies = [
        copy
        for name, endpoint in workspace.spec.endpoints.items()
        if isinstance(endpoint, MultiModelEndpoint)
        for copy in _copies(workspace, name)
        if models is None or copy.model in models
    ]
    return sorted(copies, key=lambda copy: copy.key)


def missing_copies(cloud: Cloud, *, bucket: str, copies: Collection[ModelCopy]) -> list[ModelCopy]:
    """Return the missing copies; all of them if there is no bucket."""
    s3, existing = cloud.client("s3"), set[str]()
    endpoints = {
        copy.key.removesuffix(naming.target_model(copy.model, copy.artifact.digest)) for copy in copies
    }
    for prefix in sorted(endpoints):
        objects = list_if_present(s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix)
        existing |= {item["Key"] for item in objects}
    return [copy for copy in copies if copy.key not in existing]


def copy_missing_models(
    cloud: Cloud, *, bucket: str, copies: Collection[ModelCopy], on_done: Callable[[CopiedModel], None]
) -> list[CopiedModel]:
    """Copy artifacts in parallel; skip existing copies.

    Can be interrupted and repeated. A copy with wrong contents is replaced.
    """
    s3 = cloud.client("s3")
    done = []
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for copied in pool.map(lambda copy: _put(s3, bucket, copy), copies):
            on_done(copied)
            done.append(copied)
    finally:
        pool.shutdown(cancel_futures=True)
    return done


def _copies(workspace: Workspace, name: str) -> Iterator[ModelCopy]:
    prefix = naming.multi_model_prefix(workspace.spec.endpoint_name(name))
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        if artifact is not None:
            yield ModelCopy(
                endpoint=name,
                model=served.model,
                artifact=artifact,
                source=f"{naming.artifact_prefix(served.model, artifact.digest)}/{ARCHIVE_NAME}",
                key=prefix + naming.target_model(served.model, artifact.digest),
            )


def _put(s3: Any, bucket: str, copy: ModelCopy) -> CopiedModel:
    head = find_object(s3, bucket, copy.key)
    if head is not None and is_archive_of(copy.artifact, head):
        return CopiedModel(copy, "there")
    source = find_object(s3, bucket, copy.source)
    if source is None or not is_archive_of(copy.artifact, source):
        failure = "is missing" if source is None else "is not the artifact that the lock names"
        raise DamagedArtifactError(
            f"s3://{bucket}/{copy.source} {failure}; it cannot be copied for endpoint {copy.endpoint!r}",
            remedy="delete that object if it exists, and publish the artifact with `tritonstack build`",
        )
    settings = {
        "Metadata": {DIGEST_NOTE: copy.artifact.digest},
        "ContentType": "application/gzip",
        # Do not copy tags: the `superseded` tag expires artifacts, but copies below the prefix are kept.
        "TaggingDirective": "REPLACE",
        # Copy exactly the version that was checked, even if it is overwritten meanwhile.
        "CopySourceIfMatch": source["ETag"],
    }
    copy_object(s3, {"Bucket": bucket, "Key": copy.source}, bucket=bucket, key=copy.key, settings=settings)
    return CopiedModel(copy, "copied" if head is None else "replaced")
