"""Find and copy artifacts in an environment's artifact bucket."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.naming import MODELS, artifact_prefix
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import (
    ARCHIVE_NAME,
    DIGEST_NOTE,
    MANIFEST_NAME,
    Manifest,
    parse_manifest,
)
from tritonstack.operate.shared.aws import Cloud, if_present, list_if_present

PART_BYTES = 256 * 1024**2
"""One request copies up to 5 GB, but answers only when all is copied. Copies in parts answer sooner."""


def has_bucket(cloud: Cloud, bucket: str) -> bool:
    """Return whether a bucket exists."""
    # HeadBucket is not used: the delivery roles may list buckets below known prefixes only.
    list_objects = cloud.client("s3").list_objects_v2
    return if_present(list_objects, Bucket=bucket, Prefix=MODELS, MaxKeys=1) is not None


def may_have_bucket(cloud: Cloud, bucket: str) -> bool:
    """Return whether a bucket exists; an inaccessible bucket counts as existing."""
    try:
        return has_bucket(cloud, bucket)
    except ClientError as error:
        if aws_error_code(error) not in ("403", "AccessDenied", "Forbidden"):
            raise
    return True


def is_published(cloud: Cloud, *, bucket: str, model: str, artifact: LockedArtifact) -> bool:
    """Return whether the bucket exists and holds an artifact, which requires its manifest.

    A manifest next to a different archive is an error: it must not be deployed.
    """
    s3, prefix = cloud.client("s3"), artifact_prefix(model, artifact.digest)
    if find_object(s3, bucket, f"{prefix}/{MANIFEST_NAME}") is None:
        return False
    archive = find_object(s3, bucket, f"{prefix}/{ARCHIVE_NAME}")
    if archive is None or not is_archive_of(artifact, archive):
        failure = "is missing" if archive is None else "does not match its manifest"
        raise DamagedArtifactError(
            f"s3://{bucket}/{prefix}/{ARCHIVE_NAME} {failure}",
            remedy=f"delete s3://{bucket}/{prefix}/ and rerun",
        )
    return True


def find_object(s3: Any, bucket: str, key: str) -> dict[str, Any] | None:
    """Return the object's metadata, or None if the object or its bucket does not exist."""
    head: dict[str, Any] | None = if_present(s3.head_object, Bucket=bucket, Key=key)
    return head


def read_object(s3: Any, bucket: str, key: str) -> bytes | None:
    """Return an object's bytes, or None if the object or its bucket does not exist."""
    answer = if_present(s3.get_object, Bucket=bucket, Key=key)
    return bytes(answer["Body"].read()) if answer else None


def published_manifest(s3: Any, *, bucket: str, model: str, digest: str) -> Manifest | None:
    """Return an artifact's manifest from a bucket; None if it does not exist."""
    key = f"{artifact_prefix(model, digest)}/{MANIFEST_NAME}"
    body = read_object(s3, bucket, key)
    return None if body is None else parse_manifest(body, origin=f"s3://{bucket}/{key}")


def find_image(ecr: Any, image_id: Mapping[str, str], **repository: str) -> dict[str, Any] | None:
    """Return ECR's description of an image by its tag or digest; None if it does not exist."""
    answer = if_present(ecr.describe_images, imageIds=[dict(image_id)], **repository)
    return answer["imageDetails"][0] if answer else None


def is_archive_of(artifact: LockedArtifact, head: dict[str, Any]) -> bool:
    """Return whether an object is an artifact's archive, by size and recorded digest."""
    properties = (head["ContentLength"], head.get("Metadata", {}).get(DIGEST_NOTE))
    return properties == (artifact.archive_bytes, artifact.digest)


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact in the bucket of an environment, or its place there."""

    cloud: Cloud
    bucket: str
    model: str
    target: str
    entry: LockedArtifact

    @property
    def prefix(self) -> str:
        """Return its prefix in the bucket and in the local store."""
        return artifact_prefix(self.model, self.entry.digest)

    @property
    def archive_key(self) -> str:
        """Return the key of its archive."""
        return f"{self.prefix}/{ARCHIVE_NAME}"

    def url(self, name: str) -> str:
        """Return the URL of one of its files, for messages."""
        return f"s3://{self.bucket}/{self.prefix}/{name}"

    def head(self) -> dict[str, Any] | None:
        """Return the metadata of its archive; None if it does not exist."""
        return find_object(self.cloud.client("s3"), self.bucket, self.archive_key)


def copy_object(
    s3: Any,
    origin: Mapping[str, str],
    *,
    bucket: str,
    settings: Mapping[str, Any],
    key: str | None = None,
    source: Any = None,
) -> None:
    """Copy an object within S3 to a bucket, in parts if it is large; it keeps its key by default.

    `origin` names the object and optionally its version; `source` is the client that can read it if `s3`
    cannot. `settings` are the copy's metadata, because a copy in parts inherits none. The target bucket's
    default key applies.
    """
    from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 - slow to import

    s3.copy(
        dict(origin),
        bucket,
        key or origin["Key"],
        ExtraArgs={"MetadataDirective": "REPLACE", "ChecksumAlgorithm": "SHA256", **settings},
        SourceClient=source,
        Config=TransferConfig(
            multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4
        ),
    )


# S3 copies are atomic, so all objects below the prefix are complete. Copies are never deleted: callers may
# still request a version that the lock no longer names.


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
