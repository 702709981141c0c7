"""A multi-model endpoint's shelf: copies of its models' artifacts below one prefix of the artifact bucket.

S3 copies an object whole or not at all, so what lies on a shelf is complete. Nothing is ever taken off one:
callers may still ask for a version that the lock no longer names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operations import artifacts
from tritonstack.operations.artifacts import DamagedArtifactError, find_object, is_archive_of
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE
from tritonstack.spec.endpoints.endpoint import MultiModelEndpoint

_AT_ONCE = 8

Outcome = Literal["there", "copied", "replaced"]


@dataclass(frozen=True)
class ShelfCopy:
    """One artifact that has to lie on one endpoint's shelf."""

    endpoint: str
    """The endpoint by its name in the environment's file."""
    model: str
    artifact: LockedArtifact
    source: str
    """The artifact's own key."""
    key: str
    """The key of the copy."""


@dataclass(frozen=True)
class Shelved:
    """A copy that lies on its shelf, and what it took."""

    copy: ShelfCopy
    outcome: Outcome


def shelf_copies(workspace: Workspace, *, models: Collection[str] | None = None) -> list[ShelfCopy]:
    """What has to lie on the shelves of an environment by its lock, in a fixed order.

    If `models` are given, theirs alone. Models without an artifact have no place yet.
    """
    copies = [
        copy
        for name, endpoint in workspace.spec.endpoints.items()
        if isinstance(endpoint, MultiModelEndpoint)
        for copy in _copies(workspace, name)
        if models is None or copy.model in models
    ]
    return sorted(copies, key=lambda copy: copy.key)


def missing_copies(cloud: Cloud, *, bucket: str, copies: Collection[ShelfCopy]) -> list[ShelfCopy]:
    """Those of the copies that do not lie in their place, by a look at what the shelves hold; or all of them,
    where there is no bucket yet.
    """
    s3, there = cloud.client("s3"), set[str]()
    endpoints = {
        copy.key.removesuffix(naming.target_model(copy.model, copy.artifact.digest)) for copy in copies
    }
    try:
        for shelf in sorted(endpoints):
            pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=shelf)
            there |= {item["Key"] for page in pages for item in page.get("Contents", ())}
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
    return [copy for copy in copies if copy.key not in there]


def fill_shelves(
    cloud: Cloud, *, bucket: str, copies: Collection[ShelfCopy], on_done: Callable[[Shelved], None]
) -> list[Shelved]:
    """Put every copy in its place, several at a time; what lies there already stays as it is.

    Safe to repeat and to interrupt. A copy that is not what its name says is replaced.
    """
    s3 = cloud.client("s3")
    done = []
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for shelved in pool.map(lambda copy: _put(s3, bucket, copy), copies):
            on_done(shelved)
            done.append(shelved)
    finally:
        pool.shutdown(cancel_futures=True)
    return done


def _copies(workspace: Workspace, name: str) -> Iterator[ShelfCopy]:
    shelf = naming.shelf_prefix(workspace.spec.endpoint_name(name))
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        if artifact is not None:
            yield ShelfCopy(
                endpoint=name,
                model=served.model,
                artifact=artifact,
                source=f"{naming.artifact_prefix(served.model, artifact.digest)}/{ARCHIVE_NAME}",
                key=shelf + naming.target_model(served.model, artifact.digest),
            )


def _put(s3: Any, bucket: str, copy: ShelfCopy) -> Shelved:
    found = find_object(s3, bucket, copy.key)
    if found is not None and is_archive_of(copy.artifact, found):
        return Shelved(copy, "there")
    source = find_object(s3, bucket, copy.source)
    if source is None or not is_archive_of(copy.artifact, source):
        what = "is missing" if source is None else "is not the artifact that the lock names"
        raise DamagedArtifactError(
            f"s3://{bucket}/{copy.source} {what}, so the endpoint {copy.endpoint!r} cannot be given it",
            remedy="delete what lies there, if anything does, and publish it with `tritonstack build`",
        )
    _copy(s3, bucket, copy, etag=source["ETag"])
    return Shelved(copy, "copied" if found is None else "replaced")


def _copy(s3: Any, bucket: str, copy: ShelfCopy, *, etag: str) -> None:
    place = {
        "Bucket": bucket,
        "Key": copy.key,
        "CopySource": {"Bucket": bucket, "Key": copy.source},
    }
    # A copy in parts takes none of this along by itself. No key is named: the bucket's own holds.
    settings = {
        "MetadataDirective": "REPLACE",
        "Metadata": {DIGEST_NOTE: copy.artifact.digest},
        "ContentType": "application/gzip",
        # A mark says what may go from among the artifacts; on a shelf nothing goes.
        "TaggingDirective": "REPLACE",
        # What was looked at is what is copied, whoever writes there meanwhile.
        "CopySourceIfMatch": etag,
    }
    if copy.artifact.archive_bytes <= artifacts.PART_BYTES:
        s3.copy_object(**place, **settings)
    else:
        s3.copy(**place, ExtraArgs=settings, Config=artifacts.in_parts())
