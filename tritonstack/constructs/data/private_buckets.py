"""Settings that all buckets share: no public or cross-account access, TLS only, one key."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3


def private_settings() -> dict[str, Any]:
    """Return `s3.Bucket` settings that all buckets share."""
    return {
        "enforce_ssl": True,
        "minimum_tls_version": 1.2,
        "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
        "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
    }


def encrypted_with(key: kms.IKey) -> dict[str, Any]:
    """Return `s3.Bucket` settings for default encryption with a KMS key."""
    return {"encryption": s3.BucketEncryption.KMS, "encryption_key": key, "bucket_key_enabled": True}


def abort_incomplete_uploads() -> s3.LifecycleRule:
    """Abort incomplete multipart uploads: S3 bills them, and object listings do not show them."""
    return s3.LifecycleRule(
        id="abort-incomplete-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(7)
    )


def deny_other_accounts(bucket: s3.Bucket) -> None:
    """Deny principals of other accounts, whatever their roles allow. AWS services act for this account."""
    bucket.add_to_resource_policy(
        iam.PolicyStatement(
            sid="DenyOtherAccounts",
            effect=iam.Effect.DENY,
            principals=[iam.AnyPrincipal()],
            actions=["s3:*"],
            resources=[bucket.bucket_arn, bucket.arn_for_objects("*")],
            conditions={
                "StringNotEquals": {"aws:PrincipalAccount": cdk.Stack.of(bucket).account},
                "Bool": {"aws:PrincipalIsAWSService": "false"},
            },
        )
    )


def deny_other_keys(bucket: s3.Bucket, key: kms.IKey) -> None:
    """Require the bucket's key: uploads without encryption settings use it, uploads with another key are
    denied."""
    algorithm, key_id = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"
    denied = {
        "DenyOtherEncryption": {
            "Null": {algorithm: "false"},
            "StringNotEquals": {algorithm: "aws:kms"},
        },
        # An upload that asks for SSE-KMS without a key would use the AWS managed key.
        "DenyOtherKeys": {
            "StringEquals": {algorithm: "aws:kms"},
            "StringNotEquals": {key_id: key.key_arn},
        },
    }
    for sid, conditions in denied.items():
        bucket.add_to_resource_policy(
            iam.PolicyStatement(
                sid=sid,
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=["s3:PutObject"],
                resources=[bucket.arn_for_objects("*")],
                conditions=conditions,
            )
        )
