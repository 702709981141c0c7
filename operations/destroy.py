"""Taking an environment down to nothing: endpoints and dashboards first, then what they stood on.

CloudFormation is asked directly, by name: an environment can be destroyed whose files no longer
describe all that was deployed from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from catalog import naming
from catalog.environments import EnvironmentSpec
from catalog.errors import TritonstackError, UsageError
from operations.aws import Cloud, error_code
from operations.stacks import BOOTSTRAP_STACK, StackState, delete_stacks, describe_stack, environment_stacks


class BucketNotEmptyError(TritonstackError):
    """Objects of a bucket could not be deleted."""


def require_removable(spec: EnvironmentSpec) -> None:
    """Environments that keep their data are not destroyed by a command."""
    if spec.removal == "retain":
        raise UsageError(
            f"environment {spec.name!r} is protected: its file says `removal: retain`",
            remedy="set `removal: destroy`, deploy that, and run destroy again",
        )


def destroy_environment(
    cloud: Cloud, spec: EnvironmentSpec, *, on_change: Callable[[StackState], None]
) -> list[str]:
    """Delete an environment's stacks and all they hold; gives the names of the stacks deleted."""
    present = [stack.name for stack in environment_stacks(cloud, spec.base)]
    below = [naming.network_stack_name(spec.base), naming.foundation_stack_name(spec.base)]
    above = [name for name in present if name not in below]
    delete_stacks(cloud, above, on_change=on_change)
    network, foundation = ([name] if name in present else [] for name in below)
    delete_stacks(cloud, network, on_change=on_change)
    if foundation:
        for bucket in (spec.artifact_bucket, spec.data_bucket):
            _stop_access_log(cloud, bucket)
        for bucket in (spec.artifact_bucket, spec.data_bucket, spec.log_bucket):
            empty_bucket(cloud, bucket)
    delete_stacks(cloud, foundation, on_change=on_change)
    return [*above, *network, *foundation]


def _stop_access_log(cloud: Cloud, bucket: str) -> None:
    """Emptying a bucket is access, too: its log would fill the log bucket again."""
    try:
        cloud.client("s3").put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})
    except ClientError as error:
        if error_code(error) != "NoSuchBucket":
            raise


def remove_bootstrap(cloud: Cloud) -> None:
    """Undo `cdk bootstrap`, for accounts that are to be left as they were found."""
    if describe_stack(cloud, BOOTSTRAP_STACK) is None:
        return
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=BOOTSTRAP_STACK)
    buckets = [
        resource["PhysicalResourceId"]
        for resource in resources["StackResources"]
        if resource["ResourceType"] == "AWS::S3::Bucket"
    ]
    delete_stacks(cloud, [BOOTSTRAP_STACK], on_change=lambda _: None)
    for bucket in buckets:  # the bootstrap template keeps its bucket when the stack goes
        empty_bucket(cloud, bucket)
        cloud.client("s3").delete_bucket(Bucket=bucket)


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
