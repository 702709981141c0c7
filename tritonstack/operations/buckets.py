"""Emptying buckets, which S3 and CloudFormation delete only when nothing is left in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, error_code

_PASSING = frozenset(
    {"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
)
"""What S3 says of single objects of a deletion that it did not get to."""
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)


class BucketNotEmptyError(TritonstackError):
    """Objects of a bucket could not be deleted."""

    def __init__(self, bucket: str, refused: Sequence[Mapping[str, Any]], *, remedy: str) -> None:
        first = refused[0]
        self.reason = f"{first['Code']}: {first.get('Message', 'no reason given')}"
        """What S3 said, without the names of things."""
        super().__init__(
            f"{len(refused)} objects of bucket {bucket} cannot be deleted, "
            f"for example {first.get('Key')}: {self.reason}",
            remedy=remedy,
        )


def stop_access_log(cloud: Cloud, bucket: str) -> None:
    """Emptying a bucket is access, too: its log would fill the log bucket again."""
    try:
        cloud.client("s3").put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise


def empty_bucket(cloud: Cloud, bucket: str, *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Delete every version of every object of a bucket; gives how many there were."""
    s3, deleted = cloud.client("s3"), 0
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                _delete(s3, bucket, objects, sleep)
                deleted += len(objects)
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
    return deleted


def _delete(s3: Any, bucket: str, objects: list[dict[str, str]], sleep: Callable[[float], None]) -> None:
    """Delete objects, those again that S3 did not get to.

    It answers 200 even where it refused some of them, so that no client of AWS tries those again by itself.
    """
    left = objects
    for pause in (*_PAUSES_S, None):
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": left, "Quiet": True})
        errors: list[Mapping[str, Any]] = answer.get("Errors", [])
        if not errors:
            return
        if lasting := [error for error in errors if error["Code"] not in _PASSING]:
            remedy = "check the bucket's policy and your rights in it, then run the same command again"
            raise BucketNotEmptyError(bucket, lasting, remedy=remedy)
        if pause is None:
            remedy = "S3 was asked several times: run the same command again after a while"
            raise BucketNotEmptyError(bucket, errors, remedy=remedy)
        sleep(pause)
        refused = {error["Key"] for error in errors}
        left = [item for item in left if item["Key"] in refused]
