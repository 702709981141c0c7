"""Empty buckets, because S3 and CloudFormation delete only empty ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, if_present, is_absent
from tritonstack.operations.stacks import DeletionError

_PASSING = frozenset(
    {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
)
"""Error codes of single objects in a deletion that can be retried."""
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)


class BucketNotEmptyError(TritonstackError):
    """Objects of a bucket could not be deleted."""

    code = DeletionError.code

    def __init__(self, bucket: str, rejected: Sequence[Mapping[str, Any]], *, remedy: str) -> None:
        first = rejected[0]
        self.reason = f"{first['Code']}: {first.get('Message', 'no reason given')}"
        """Return S3's error message without object names."""
        super().__init__(
            (
                f"cannot delete {len(rejected)} objects of bucket {bucket}, for example {first.get('Key')}: "
                f"{self.reason}"
            ),
            remedy=remedy,
        )


def stop_access_log(cloud: Cloud, bucket: str) -> None:
    """Disable access logging: deleting objects would write new log objects."""
    if_present(cloud.client("s3").put_bucket_logging, Bucket=bucket, BucketLoggingStatus={})


def empty_bucket(cloud: Cloud, bucket: str, *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Delete all versions of all objects of a bucket; return their number."""
    s3, deleted = cloud.client("s3"), 0
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                _delete(s3, bucket, objects, sleep)
                deleted += len(objects)
    except ClientError as error:
        if not is_absent(error):
            raise
    return deleted


def _delete(s3: Any, bucket: str, objects: list[dict[str, str]], sleep: Callable[[float], None]) -> None:
    """Delete objects, with retries.

    S3 returns 200 even if it rejected some objects, so AWS clients do not retry those.
    """
    remaining = objects
    for pause in (*_PAUSES_S, None):
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": remaining, "Quiet": True})
        errors: list[Mapping[str, Any]] = answer.get("Errors", [])
        if not errors:
            return
        if lasting := [error for error in errors if error["Code"] not in _PASSING]:
            remedy = "check the bucket's policy and your permissions, then rerun"
            raise BucketNotEmptyError(bucket, lasting, remedy=remedy)
        if pause is None:
            remedy = "S3 failed after several retries; rerun later"
            raise BucketNotEmptyError(bucket, errors, remedy=remedy)
        sleep(pause)
        rejected = {error["Key"] for error in errors}
        remaining = [item for item in remaining if item["Key"] in rejected]
