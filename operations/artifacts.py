"""What lies in an environment's artifact bucket."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from catalog.errors import TritonstackError
from catalog.locks import LockedArtifact
from catalog.manifests import ARCHIVE_NAME, DIGEST_NOTE, MANIFEST_NAME
from catalog.naming import artifact_prefix
from operations.aws import Cloud, error_code


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
