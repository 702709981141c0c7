"""Artifacts that were deleted from their bucket, and can be brought back for a month."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from catalog.errors import TritonstackError
from catalog.manifests import MANIFEST_NAME
from catalog.naming import artifact_prefix
from operations.aws import Cloud, error_code


class BucketGoneError(TritonstackError):
    """There is no bucket to look in."""


def bring_back(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Undo the deletion of an artifact, its manifest last; tells whether there was anything to bring back.

    A version that was deleted for what its tag said loses the tag first, or it would go again the same night.
    """
    s3 = cloud.client("s3")
    prefix = f"{artifact_prefix(model, digest)}/"
    deleted = _deleted(s3, bucket, prefix)
    for key in sorted(deleted, key=lambda key: key.endswith(f"/{MANIFEST_NAME}")):
        version, markers = deleted[key]
        s3.delete_object_tagging(Bucket=bucket, Key=key, VersionId=version)
        for marker in markers:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=marker)
    return bool(deleted)


def _deleted(s3: Any, bucket: str, prefix: str) -> dict[str, tuple[str, list[str]]]:
    """By key, the latest version that still lies there, and the marks of deletion that hide it."""
    try:
        pages = list(s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix))
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
        raise BucketGoneError(
            f"there is no bucket {bucket}",
            remedy="the environment is not deployed: there is nothing to go back in",
        ) from None
    versions: dict[str, list[dict[str, Any]]] = {}
    markers: dict[str, list[dict[str, Any]]] = {}
    for page in pages:
        for item in page.get("Versions", ()):
            versions.setdefault(item["Key"], []).append(item)
        for item in page.get("DeleteMarkers", ()):
            markers.setdefault(item["Key"], []).append(item)
    hidden = {key for key, items in markers.items() if any(item["IsLatest"] for item in items)}
    return {
        key: (versions[key][0]["VersionId"], [item["VersionId"] for item in markers[key]])
        for key in sorted(hidden & set(versions))
    }
