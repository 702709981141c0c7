"""What those who carry changes may do with artifacts and images, as plain records."""

from __future__ import annotations

from collections.abc import Sequence

from tritonstack.base import naming
from tritonstack.constructs.delivery.delivery_grants import explained, some_key
from tritonstack.constructs.iam.grants import Grant, Home, read_objects, write_objects
from tritonstack.spec.environments.environment import EnvironmentSpec


def read_artifacts(home: Home, spec: EnvironmentSpec) -> list[Grant]:
    """See which artifacts an environment's bucket has, and what happened to them."""
    because = f"all that the artifact bucket of {spec.name} holds"
    return explained(
        read_objects(home, spec.artifact_bucket, "", key_arn=some_key(home), because=because), because
    )


def write_artifacts(home: Home, spec: EnvironmentSpec, prefixes: Sequence[str]) -> list[Grant]:
    """Write into an environment's artifact bucket; nothing is deleted."""
    because = f"artifacts and events of {spec.name}, which are named when they are written"
    return explained(
        write_objects(home, spec.artifact_bucket, prefixes, key_arn=some_key(home), because=because), because
    )


def mark_artifacts(home: Home, spec: EnvironmentSpec) -> list[Grant]:
    """Mark artifacts that no late lock names, and take the mark off those that one names again."""
    return [
        Grant(
            ["s3:DeleteObjectTagging", "s3:GetObjectTagging", "s3:PutObjectTagging"],
            [f"{home.bucket(spec.artifact_bucket)}/{naming.MODELS}*"],
            because="artifacts of every model, which are named by their digests",
        )
    ]


def bring_artifacts_back(home: Home, spec: EnvironmentSpec) -> list[Grant]:
    """Find artifacts that were deleted, and copy the version under the mark of deletion over itself.

    A version is read and tagged under names of rights of its own. To take the mark of deletion away instead
    would need the right to delete versions, which can destroy for good.
    """
    bucket, models = home.bucket(spec.artifact_bucket), f"{naming.MODELS}*"
    because = "artifacts of every model, which are named by their digests"
    return [
        Grant(["s3:ListBucketVersions"], [bucket], {"StringLike": {"s3:prefix": models}}),
        Grant(
            ["s3:GetObjectVersion", "s3:GetObjectVersionTagging", "s3:PutObjectVersionTagging"],
            [f"{bucket}/{models}"],
            because=because,
        ),
    ]


def write_images(home: Home, repository: str) -> list[Grant]:
    """Bring an image into a repository, layer by layer."""
    return [
        Grant(
            [
                "ecr:BatchCheckLayerAvailability",
                "ecr:BatchGetImage",
                "ecr:CompleteLayerUpload",
                "ecr:DescribeImages",
                "ecr:InitiateLayerUpload",
                "ecr:PutImage",
                "ecr:UploadLayerPart",
            ],
            [home.arn("ecr", f"repository/{repository}")],
        )
    ]
