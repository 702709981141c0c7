"""What lies in an environment's artifact bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import MODELS, artifact_prefix
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME

PART_BYTES = 256 * 1024**2
"""One request copies up to 5 GB, but answers only when all is copied. Copies in parts answer sooner."""


class DamagedArtifactError(TritonstackError):
    """What lies in the bucket under an artifact's name is not that artifact."""


def is_published(cloud: Cloud, *, bucket: str, model: str, artifact: LockedArtifact) -> bool:
    """Whether the bucket is there and holds an artifact, which it does when it holds its manifest.

    A manifest beside another archive than its own is an error: nothing may be deployed from that.
    """
    s3, prefix = cloud.client("s3"), artifact_prefix(model, artifact.digest)
    if find_object(s3, bucket, f"{prefix}/{MANIFEST_NAME}") is None:
        return False
    archive = find_object(s3, bucket, f"{prefix}/{ARCHIVE_NAME}")
    if archive is None or not is_archive_of(artifact, archive):
        what = "is missing" if archive is None else "is not the archive that its manifest names"
        raise DamagedArtifactError(
            f"s3://{bucket}/{prefix}/{ARCHIVE_NAME} {what}",
            remedy=f"delete what lies below s3://{bucket}/{prefix}/, and run the same command again",
        )
    return True


def bucket_exists(cloud: Cloud, bucket: str) -> bool:
    """Whether a bucket is there; one that may not be looked at counts as there."""
    try:
        # Not HeadBucket: the roles of delivery may list a bucket below known prefixes only.
        cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix=MODELS, MaxKeys=1)
    except ClientError as error:
        if error_code(error) in ("404", "NoSuchBucket", "NotFound"):
            return False
        if error_code(error) not in ("403", "AccessDenied", "Forbidden"):
            raise
    return True


def find_object(s3: Any, bucket: str, key: str) -> dict[str, Any] | None:
    """What S3 says of an object, or None if it or its bucket is not there."""
    try:
        head: dict[str, Any] = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) in ("404", "NoSuchKey", "NoSuchBucket"):
            return None
        raise
    return head


def is_archive_of(artifact: LockedArtifact, head: dict[str, Any]) -> bool:
    """Whether an object is an artifact's archive, by its size and the digest that it was uploaded with."""
    found = (head["ContentLength"], head.get("Metadata", {}).get(DIGEST_NOTE))
    return found == (artifact.archive_bytes, artifact.digest)


def copy_object(
    s3: Any, origin: Mapping[str, str], *, bucket: str, settings: Mapping[str, Any], source: Any = None
) -> None:
    """Have S3 copy an object to the same key of a bucket, in parts where it is large.

    `origin` names it, and a version of it if that is meant; `source` is the client that may look at it, where
    `s3` may not. `settings` say all that holds of the copy: one in parts takes nothing along by itself. No
    key is named: that of the bucket it goes to holds.
    """
    s3.copy(
        dict(origin),
        bucket,
        origin["Key"],
        ExtraArgs={"MetadataDirective": "REPLACE", "ChecksumAlgorithm": "SHA256", **settings},
        SourceClient=source,
        Config=in_parts(),
    )


def in_parts() -> Any:
    """Return the transfer configuration of copies within S3."""
    from boto3.s3.transfer import TransferConfig  # noqa: PLC0415 - slow to import

    return TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, max_concurrency=4)
