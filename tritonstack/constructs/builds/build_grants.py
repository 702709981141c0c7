"""IAM grants of the build roles, as plain records."""

from __future__ import annotations

from collections.abc import Sequence

from tritonstack.constructs.iam.grants import AwsScope, Grant, allow, use_key_through_s3
from tritonstack.constructs.model_data import split_image_uri


def read_source(aws: AwsScope, bucket: str, key: str, *, encrypted_with: str | None) -> list[Grant]:
    """Allow fetching one source archive from S3, as CodeBuild and SageMaker do it.

    `encrypted_with` is the customer-managed key of the bootstrap bucket, if any.
    """
    arn = aws.bucket(bucket)
    return [
        allow("s3: GetObject GetObjectVersion", f"{arn}/{key}"),
        allow("s3: GetBucketAcl GetBucketLocation", arn),
        allow("s3: ListBucket", arn, where={"StringLike": {"s3:prefix": key}}),
        *use_key_through_s3(aws, ["kms:Decrypt"], encrypted_with, [arn, f"{arn}/{key}"]),
    ]


def keep_artifacts(aws: AwsScope, bucket: str, prefix: str, key_arn: str) -> list[Grant]:
    """Allow reading and writing artifacts, build records, and build caches below a prefix."""
    arn = aws.bucket(bucket)
    objects = f"{arn}/{prefix}*"
    return [
        allow(
            "s3: AbortMultipartUpload GetObject PutObject",
            objects,
            because="artifacts are content-addressed, so their names are known only after the build; no "
            "delete permission",
        ),
        # Without this permission, S3 answers "access denied" for missing objects.
        allow("s3: ListBucket", arn, where={"StringLike": {"s3:prefix": f"{prefix}*"}}),
        *use_key_through_s3(aws, ["kms:Decrypt", "kms:GenerateDataKey"], key_arn, [arn, objects]),
    ]


def push_image(aws: AwsScope, uri: str) -> Grant:
    """Allow pushing images to one repository and listing them."""
    account, region, repository = split_image_uri(uri)
    return push_images(AwsScope(aws.partition, region, account), repository)


def push_images(aws: AwsScope, repository: str) -> Grant:
    """Allow pushing images to a repository, layer by layer, and listing them."""
    return allow(
        "ecr: BatchCheckLayerAvailability BatchGetImage CompleteLayerUpload DescribeImages "
        "InitiateLayerUpload PutImage UploadLayerPart",
        aws.arn("ecr", f"repository/{repository}"),
    )


def write_build_log(aws: AwsScope, group: str) -> Grant:
    """Allow writing to an existing log group."""
    arn = aws.arn("logs", f"log-group:{group}")
    because = "log streams of this log group; CodeBuild names them after the builds"
    return allow("logs: CreateLogStream PutLogEvents", arn, f"{arn}:*", because=because)


def read_secret(aws: AwsScope, name: str, key_arn: str) -> list[Grant]:
    """Allow reading one secret, encrypted with the AWS managed key or the environment's key."""
    through = {"StringEquals": {"kms:ViaService": f"secretsmanager.{aws.region}.amazonaws.com"}}
    return [
        # Secrets Manager appends six random characters to the name.
        allow("secretsmanager: GetSecretValue", aws.arn("secretsmanager", f"secret:{name}-??????")),
        allow("kms: Decrypt", key_arn, where=through),
    ]


def read_sources(aws: AwsScope, urls: Sequence[str]) -> list[Grant]:
    """Allow reading source models from S3, each below its own prefix."""
    grants = []
    for url in urls:
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        arn, below = aws.bucket(bucket), f"{prefix.rstrip('/')}/*"
        grants += [
            allow("s3: GetObject", f"{arn}/{below}", because="the files of one model, below one prefix"),
            allow("s3: ListBucket", arn, where={"StringLike": {"s3:prefix": below}}),
        ]
    return grants
