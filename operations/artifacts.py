"""What lies in an environment's artifact bucket."""

from __future__ import annotations

from botocore.exceptions import ClientError

from catalog.manifests import MANIFEST_NAME
from catalog.naming import artifact_prefix
from operations.aws import Cloud, error_code


def is_published(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Whether the bucket is there and holds an artifact, which it does when it holds its manifest."""
    try:
        cloud.client("s3").head_object(Bucket=bucket, Key=f"{artifact_prefix(model, digest)}/{MANIFEST_NAME}")
    except ClientError as error:
        if error_code(error) in ("404", "NoSuchKey", "NoSuchBucket"):
            return False
        raise
    return True
