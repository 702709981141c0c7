"""Copy artifacts between buckets of one account within S3, without downloading them."""

from __future__ import annotations

from typing import Any

from tritonstack.operations.artifacts import (
    DamagedArtifactError,
    copy_object,
    find_object,
    is_archive_of,
    is_published,
)
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.fetching import SourceArtifact, read_source_manifest
from tritonstack.records.examples import EXAMPLES_NAME
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME


def copy_in_account(source: SourceArtifact, *, cloud: Cloud, bucket: str) -> None:
    """Copy an artifact and its examples, the manifest last; skip existing objects.

    `cloud` is that of the target bucket. Can be interrupted and repeated.
    """
    if is_published(cloud, bucket=bucket, model=source.model, artifact=source.entry):
        return
    manifest = read_source_manifest(source)
    s3, key = cloud.client("s3"), f"{source.prefix}/{ARCHIVE_NAME}"
    head = find_object(source.cloud.client("s3"), source.bucket, key)
    if head is None or not is_archive_of(source.entry, head):
        failure = "is missing" if head is None else "does not match the lock"
        raise DamagedArtifactError(
            f"{source.url(ARCHIVE_NAME)} {failure}",
            remedy="delete it if it exists, and republish it with `tritonstack build`",
        )
    # S3 would copy the `superseded` tag, and require tagging permissions.
    unmarked = {"TaggingDirective": "REPLACE"}
    settings = {"Metadata": {DIGEST_NOTE: source.entry.digest}, "ContentType": "application/gzip"}
    _copy(s3, source, bucket, ARCHIVE_NAME, unmarked | settings | {"CopySourceIfMatch": head["ETag"]})
    beside = [EXAMPLES_NAME] if manifest.examples_sha256 is not None else []
    for name in (*beside, MANIFEST_NAME):
        _copy(s3, source, bucket, name, unmarked | {"ContentType": "application/json"})


def _copy(s3: Any, source: SourceArtifact, bucket: str, name: str, settings: dict[str, Any]) -> None:
    key = f"{source.prefix}/{name}"
    origin = {"Bucket": source.bucket, "Key": key}
    copy_object(s3, origin, bucket=bucket, settings=settings, source=source.cloud.client("s3"))
