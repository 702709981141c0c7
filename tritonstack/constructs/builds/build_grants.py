"""What the roles of builds may be allowed, as plain records beside those of `grants.py`."""

from __future__ import annotations

from collections.abc import Sequence

from tritonstack.constructs.iam.grants import Grant, Home, use_key_through_s3
from tritonstack.constructs.model_data import split_image_uri


def read_source(home: Home, bucket: str, key: str, *, encrypted_with: str | None) -> list[Grant]:
    """Fetch one archive of the repository's files, as CodeBuild and SageMaker do that.

    `encrypted_with` is the customer's key that the account was bootstrapped with, if there is one.
    """
    arn = home.bucket(bucket)
    return [
        Grant(["s3:GetObject", "s3:GetObjectVersion"], [f"{arn}/{key}"]),
        Grant(["s3:GetBucketAcl", "s3:GetBucketLocation"], [arn]),
        Grant(["s3:ListBucket"], [arn], {"StringLike": {"s3:prefix": key}}),
        *use_key_through_s3(home, ["kms:Decrypt"], encrypted_with, [arn, f"{arn}/{key}"]),
    ]


def keep_artifacts(home: Home, bucket: str, prefix: str, key_arn: str) -> list[Grant]:
    """Read and write artifacts, records of builds, and what builds keep for the next one, below a prefix."""
    arn = home.bucket(bucket)
    objects = f"{arn}/{prefix}*"
    return [
        Grant(
            ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
            [objects],
            because="an artifact is named by its bytes, which only the build makes; nothing is deleted",
        ),
        # Without it S3 answers "access denied" for what is not there yet.
        Grant(["s3:ListBucket"], [arn], {"StringLike": {"s3:prefix": f"{prefix}*"}}),
        *use_key_through_s3(home, ["kms:Decrypt", "kms:GenerateDataKey"], key_arn, [arn, objects]),
    ]


def push_image(home: Home, uri: str) -> Grant:
    """Put images into one repository, and see which are there."""
    account, region, repository = split_image_uri(uri)
    return Grant(
        [
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:CompleteLayerUpload",
            "ecr:DescribeImages",
            "ecr:InitiateLayerUpload",
            "ecr:PutImage",
            "ecr:UploadLayerPart",
        ],
        [f"arn:{home.partition}:ecr:{region}:{account}:repository/{repository}"],
    )


def write_build_log(home: Home, group: str) -> Grant:
    """Write a log group that is there already."""
    arn = home.arn("logs", f"log-group:{group}")
    return Grant(
        ["logs:CreateLogStream", "logs:PutLogEvents"],
        [arn, f"{arn}:*"],
        because="the streams of this one group, which CodeBuild names after its builds",
    )


def read_secret(home: Home, name: str, key_arn: str) -> list[Grant]:
    """Read one secret, encrypted with the account's usual key or the environment's."""
    return [
        # Secrets Manager adds six characters of its own to the name.
        Grant(["secretsmanager:GetSecretValue"], [home.arn("secretsmanager", f"secret:{name}-??????")]),
        Grant(
            ["kms:Decrypt"],
            [key_arn],
            {"StringEquals": {"kms:ViaService": f"secretsmanager.{home.region}.amazonaws.com"}},
        ),
    ]


def read_sources(home: Home, urls: Sequence[str]) -> list[Grant]:
    """Fetch the models that lie in buckets, each from its own prefix."""
    grants = []
    for url in urls:
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        arn, below = home.bucket(bucket), f"{prefix.rstrip('/')}/*"
        grants += [
            Grant(["s3:GetObject"], [f"{arn}/{below}"], because="the files of a model, below its one prefix"),
            Grant(["s3:ListBucket"], [arn], {"StringLike": {"s3:prefix": below}}),
        ]
    return grants
