"""Emptying buckets, which S3 and CloudFormation delete only when nothing is left in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from catalog.errors import TritonstackError
from operations.aws import Cloud, error_code


class BucketNotEmptyError(TritonstackError):
    """Objects of a bucket could not be deleted."""


def stop_access_log(cloud: Cloud, bucket: str) -> None:
    """Emptying a bucket is access, too: its log would fill the log bucket again."""
    try:
        cloud.client("s3").put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise


def empty_bucket(cloud: Cloud, bucket: str) -> int:
    """Delete every version of every object of a bucket; gives how many there were."""
    s3, deleted = cloud.client("s3"), 0
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            entries = page.get("Versions", []) + page.get("DeleteMarkers", [])
            objects = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if objects:
                _require_deleted(
                    bucket, s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
                )
                deleted += len(objects)
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise
    return deleted


def _require_deleted(bucket: str, answer: Mapping[str, Any]) -> None:
    """S3 answers 200 to a deletion of many objects even where it refused some of them."""
    refused = answer.get("Errors", [])
    if refused:
        first = refused[0]
        raise BucketNotEmptyError(
            f"{len(refused)} objects of bucket {bucket} cannot be deleted, "
            f"for example {first.get('Key')}: {first.get('Message', first.get('Code'))}",
            remedy="check the bucket's policy and your rights in it, then run the same command again",
        )
