"""Copy artifacts between buckets of one account within S3, without downloading them."""

from __future__ import annotations

from tritonstack.base.error_kinds import DamagedArtifactError
from tritonstack.operations.artifacts import StoredArtifact, copy_object, is_archive_of, is_published
from tritonstack.operations.aws import Cloud
from tritonstack.operations.promotion.fetching import (
    read_source_examples,
    read_source_manifest,
)
from tritonstack.records.examples import EXAMPLES_NAME
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME


def copy_in_account(source: StoredArtifact, *, cloud: Cloud, bucket: str) -> None:
    """Copy an artifact and its examples, the manifest last; skip existing objects.

    `cloud` is that of the target bucket. Can be interrupted and repeated.
    """
    if is_published(cloud, bucket=bucket, model=source.model, artifact=source.entry):
        return
    manifest = read_source_manifest(source)
    s3, key, head = cloud.client("s3"), source.archive_key, source.head()
    if head is None or not is_archive_of(source.entry, head):
        failure = "is missing" if head is None else "does not match the lock"
        raise DamagedArtifactError(
            f"{source.url(ARCHIVE_NAME)} {failure}",
            remedy="delete it if it exists, and republish it with `tritonstack build`",
        )
    # S3 would copy the `superseded` tag, and require tagging permissions.
    unmarked = {"TaggingDirective": "REPLACE"}
    settings = {"Metadata": {DIGEST_NOTE: source.entry.digest}, "ContentType": "application/gzip"}
    origin = {"Bucket": source.bucket, "Key": key}
    condition = {"CopySourceIfMatch": head["ETag"]}
    copy_object(
        s3, origin, bucket=bucket, settings=unmarked | settings | condition, source=source.cloud.client("s3")
    )
    # What was read and checked is written, because S3 would copy what the source has by then.
    bodies = {MANIFEST_NAME: manifest.to_json().encode()}
    if manifest.examples_sha256 is not None:
        bodies = {EXAMPLES_NAME: read_source_examples(source, manifest), **bodies}
    for name, body in bodies.items():
        s3.put_object(Bucket=bucket, Key=f"{source.prefix}/{name}", Body=body, ContentType="application/json")
