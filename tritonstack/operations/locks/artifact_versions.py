"""Restore deleted artifacts within a month.

The last version is copied over the delete marker. Removing the marker would need permission to delete
versions, which no deployer has.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tritonstack.base.error_kinds import NotDeployedError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.naming import SUPERSEDED_TAG, artifact_prefix
from tritonstack.operations.artifacts import copy_object
from tritonstack.operations.aws import Cloud, if_present
from tritonstack.records.manifests import MANIFEST_NAME


def restore_artifact(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Restore a deleted artifact, its manifest last; return whether anything was restored.

    Can be interrupted and repeated.
    """
    s3 = cloud.client("s3")
    deleted = _deleted(s3, bucket, f"{artifact_prefix(model, digest)}/")
    for key in sorted(deleted, key=lambda key: key.endswith(f"/{MANIFEST_NAME}")):
        _copy_over_itself(s3, bucket, key, deleted[key])
    return bool(deleted)


def _copy_over_itself(s3: Any, bucket: str, key: str, version: str) -> None:
    """Copy it as published, without the `superseded` tag, which would expire it again."""
    origin = {"Bucket": bucket, "Key": key, "VersionId": version}
    head, tags = s3.head_object(**origin), s3.get_object_tagging(**origin)["TagSet"]
    other_tags = {tag["Key"]: tag["Value"] for tag in tags if tag["Key"] != SUPERSEDED_TAG[0]}
    settings = {
        "ContentType": head["ContentType"],
        "Metadata": head["Metadata"],
        "TaggingDirective": "REPLACE",
        "Tagging": urlencode(other_tags),
    }
    copy_object(s3, origin, bucket=bucket, settings=settings)


def _deleted(s3: Any, bucket: str, prefix: str) -> dict[str, str]:
    """Return the latest version of each key that a delete marker hides."""
    listing = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
    pages = if_present(lambda: list(listing))
    if pages is None:
        raise TritonstackError(
            f"bucket {bucket} does not exist",
            remedy="the environment is not deployed, so there is nothing to roll back",
            code=NotDeployedError.code,
        )
    latest: dict[str, str] = {}
    for item in (item for page in pages for item in page.get("Versions", ())):
        latest.setdefault(item["Key"], item["VersionId"])  # S3 lists the latest version of a key first
    markers = (item for page in pages for item in page.get("DeleteMarkers", ()))
    hidden = {item["Key"] for item in markers if item["IsLatest"]}
    return {key: latest[key] for key in sorted(hidden & set(latest))}
