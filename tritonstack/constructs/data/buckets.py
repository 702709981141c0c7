"""Create the stores: key, image repositories, and buckets for artifacts, for data, and for access logs.

No bucket has public or cross-account access, and all accept TLS only. They do not use CDK's
`auto_delete_objects`, which adds a Lambda function; `tritonstack destroy` empties buckets if the environment
allows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.base.naming import MODELS, SUPERSEDED_TAG
from tritonstack.constructs.iam.grants import AwsScope, iam_actions
from tritonstack.constructs.iam.skipped_checks import skip_check


def encryption_key(
    scope: Construct,
    construct_id: str,
    *,
    alias: str,
    description: str,
    removal: cdk.RemovalPolicy,
    log_groups: Sequence[str],
) -> kms.Key:
    """Create a customer-managed key with yearly rotation and an alias.

    `log_groups` are the names or patterns of the log groups that CloudWatch Logs encrypts with it.
    """
    scope = Construct(scope, construct_id)
    key = kms.Key(
        scope,
        "Key",
        alias=alias,
        description=description,
        enable_key_rotation=True,
        removal_policy=removal,
        # The shortest waiting period that KMS allows; a retained key is never scheduled for deletion.
        pending_window=cdk.Duration.days(7) if removal == cdk.RemovalPolicy.DESTROY else None,
    )
    aws = AwsScope.of(scope)
    groups = [aws.arn("logs", f"log-group:{name}") for name in log_groups]
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid="LogsAreEncrypted",
            principals=[iam.ServicePrincipal(f"logs.{aws.region}.amazonaws.com")],
            actions=iam_actions("kms: Decrypt DescribeKey Encrypt GenerateDataKey* ReEncrypt*"),
            # In a key policy, * means this key.
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )
    )
    return key


DEFAULT_EXPIRY_DAYS = 90


def private_bucket(
    scope: Construct, construct_id: str, *, key: kms.IKey | None, any_key: bool = False, **settings: Any
) -> s3.Bucket:
    """Create a bucket that a key encrypts by default; it rejects other keys unless `any_key`."""
    bucket = s3.Bucket(
        scope,
        construct_id,
        enforce_ssl=True,
        minimum_tls_version=1.2,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        **settings,
    )
    # Whatever the roles of other accounts allow. AWS services act for this account.
    other_accounts = {
        "StringNotEquals": {"aws:PrincipalAccount": cdk.Stack.of(bucket).account},
        "Bool": {"aws:PrincipalIsAWSService": "false"},
    }
    everything = [bucket.bucket_arn, bucket.arn_for_objects("*")]
    _deny(bucket, "DenyOtherAccounts", "s3:*", everything, other_accounts)
    if key and not any_key:
        _deny_other_keys(bucket, key)
    return bucket


def abort_incomplete_uploads() -> s3.LifecycleRule:
    """Abort incomplete multipart uploads: S3 bills them, and object listings do not show them."""
    return s3.LifecycleRule(
        id="abort-incomplete-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(7)
    )


def access_log(scope: Construct, construct_id: str, *, name: str, removal: cdk.RemovalPolicy) -> s3.Bucket:
    """Create the bucket for the access logs of other buckets; its objects expire after a year."""
    bucket = private_bucket(
        Construct(scope, construct_id),
        "Bucket",
        # S3 delivers access logs only to buckets with SSE-S3 encryption.
        key=None,
        bucket_name=name,
        removal_policy=removal,
        lifecycle_rules=[
            s3.LifecycleRule(id="expire", expiration=cdk.Duration.days(365)),
            abort_incomplete_uploads(),
        ],
    )
    skip_check(
        bucket, "CKV_AWS_18", because="this is the access log bucket; logging its own writes would loop"
    )
    skip_check(bucket, "CKV_AWS_21", because="S3 writes each log object once, under a unique name")
    return bucket


def artifact_bucket(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    key: kms.IKey,
    log: s3.IBucket,
    removal: cdk.RemovalPolicy,
) -> s3.Bucket:
    """Create a versioned bucket for content-addressed artifacts, which are never overwritten."""
    return private_bucket(
        Construct(scope, construct_id),
        "Bucket",
        key=key,
        bucket_name=name,
        versioned=True,
        server_access_logs_bucket=log,
        server_access_logs_prefix="artifacts/",
        removal_policy=removal,
        lifecycle_rules=[
            s3.LifecycleRule(
                # A deleted artifact can be restored for a month.
                id="expire-noncurrent-versions",
                noncurrent_version_expiration=cdk.Duration.days(30),
                expired_object_delete_marker=True,
            ),
            s3.LifecycleRule(
                # Expire only objects that tritonstack/operate/locks/retention.py tagged.
                id="expire-superseded-artifacts",
                prefix=MODELS,
                tag_filters=dict([SUPERSEDED_TAG]),
                expiration=cdk.Duration.days(30),
            ),
            abort_incomplete_uploads(),
        ],
    )


def data_bucket(
    scope: Construct,
    construct_id: str,
    *,
    name: str,
    key: kms.IKey,
    log: s3.IBucket,
    expiry_days: Mapping[str, int],
    removal: cdk.RemovalPolicy,
) -> s3.Bucket:
    """Create the bucket for captured requests, and the requests and answers of asynchronous endpoints.

    Objects expire: per prefix as `expiry_days` says, the rest later. Without versions, a deleted object is
    gone at once.
    """
    bucket = private_bucket(
        Construct(scope, construct_id),
        "Bucket",
        key=key,
        bucket_name=name,
        server_access_logs_bucket=log,
        server_access_logs_prefix="data/",
        removal_policy=removal,
    )
    resource = cast("s3.CfnBucket", bucket.node.default_child)
    # Set the rules in one step on the CloudFormation resource: there are up to four rules per endpoint.
    resource.add_property_override("LifecycleConfiguration.Rules", _expiries(expiry_days))
    skip_check(bucket, "CKV_AWS_21", because="versions would keep personal data beyond its deletion date")
    return bucket


def _expiries(expiry_days: Mapping[str, int]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = [
        {"Id": f"expire-{prefix.strip('/').replace('/', '-')}", "Prefix": prefix, "ExpirationInDays": days}
        for prefix, days in sorted(expiry_days.items())
    ]
    # If two rules match, S3 applies the earlier expiry, so the rule for all objects must be the later one.
    longest = max([DEFAULT_EXPIRY_DAYS, *expiry_days.values()])
    rules.append(
        {
            "Id": "expire-what-belongs-to-no-endpoint",
            "ExpirationInDays": longest,
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        }
    )
    return [{"Status": "Enabled", **rule} for rule in rules]


def _deny_other_keys(bucket: s3.Bucket, key: kms.IKey) -> None:
    """Require the bucket's key: uploads without encryption settings use it, uploads with another key are
    denied."""
    algorithm, key_id = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"
    denied: dict[str, dict[str, dict[str, str]]] = {
        "DenyOtherEncryption": {"Null": {algorithm: "false"}, "StringNotEquals": {algorithm: "aws:kms"}},
        # An upload that asks for SSE-KMS without a key would use the AWS managed key.
        "DenyOtherKeys": {"StringEquals": {algorithm: "aws:kms"}, "StringNotEquals": {key_id: key.key_arn}},
    }
    for sid, conditions in denied.items():
        _deny(bucket, sid, "s3:PutObject", [bucket.arn_for_objects("*")], conditions)


def _deny(
    bucket: s3.Bucket, sid: str, action: str, resources: Sequence[str], conditions: Mapping[str, Any]
) -> None:
    statement = iam.PolicyStatement(
        sid=sid,
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=[action],
        resources=resources,
        conditions=conditions,
    )
    bucket.add_to_resource_policy(statement)


def image_repository(
    scope: Construct, construct_id: str, *, name: str, key: kms.IKey, removal: cdk.RemovalPolicy
) -> str:
    """Create an ECR repository with scan on push and immutable tags; return its URI."""
    scope = Construct(scope, construct_id)
    repository = ecr.Repository(
        scope,
        "Repository",
        repository_name=name,
        image_scan_on_push=True,
        image_tag_mutability=ecr.TagMutability.IMMUTABLE,
        encryption=ecr.RepositoryEncryption.KMS,
        encryption_key=key,
        removal_policy=removal,
        empty_on_delete=removal == cdk.RemovalPolicy.DESTROY,
        # Expire only untagged images: an endpoint pulls its image again on each scale-out, however old it
        # is. `deploy` deletes superseded ones, because this rule knows nothing of locks and endpoints.
        lifecycle_rules=[
            ecr.LifecycleRule(
                description="untagged images",
                tag_status=ecr.TagStatus.UNTAGGED,
                max_image_age=cdk.Duration.days(14),
            )
        ],
    )
    return repository.repository_uri
