"""IAM grants of the delivery roles for artifacts and images, as plain records."""

from __future__ import annotations

from collections.abc import Sequence

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import any_key, explained
from tritonstack.constructs.iam.grants import AwsScope, Grant, read_objects, write_objects
from tritonstack.spec.environments.environment import EnvironmentSpec


def read_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow listing an environment's artifacts and reading their events."""
    because = f"all objects in the artifact bucket of {spec.name}"
    return explained(
        read_objects(aws, spec.artifact_bucket, "", key_arn=any_key(aws), because=because), because
    )


def write_artifacts(aws: AwsScope, spec: EnvironmentSpec, prefixes: Sequence[str]) -> list[Grant]:
    """Allow writing to an environment's artifact bucket, without deleting."""
    because = f"artifacts and events of {spec.name}; their names are known only when they are written"
    return explained(
        write_objects(aws, spec.artifact_bucket, prefixes, key_arn=any_key(aws), because=because), because
    )


def mark_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow tagging artifacts that no recent lock names, and removing the tag."""
    return [
        Grant(
            ["s3:DeleteObjectTagging", "s3:GetObjectTagging", "s3:PutObjectTagging"],
            [f"{aws.bucket(spec.artifact_bucket)}/{naming.MODELS}*"],
            because="artifacts of all models; they are named by digest",
        )
    ]


def restore_artifacts(aws: AwsScope, spec: EnvironmentSpec) -> list[Grant]:
    """Allow finding deleted artifacts and restoring them by copying the last version.

    Reading and tagging a version are separate actions. Removing the delete marker instead would need
    s3:DeleteObjectVersion, which can delete data permanently.
    """
    bucket, models = aws.bucket(spec.artifact_bucket), f"{naming.MODELS}*"
    because = "artifacts of all models; they are named by digest"
    return [
        Grant(["s3:ListBucketVersions"], [bucket], {"StringLike": {"s3:prefix": models}}),
        Grant(
            ["s3:GetObjectVersion", "s3:GetObjectVersionTagging", "s3:PutObjectVersionTagging"],
            [f"{bucket}/{models}"],
            because=because,
        ),
    ]
