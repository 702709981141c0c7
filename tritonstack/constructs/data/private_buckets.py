"""What every bucket here has in common: nobody outside the account, nothing but TLS, one key."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3


def private_settings() -> dict[str, Any]:
    """Settings of `s3.Bucket` that none of ours goes without."""
    return {
        "enforce_ssl": True,
        "minimum_tls_version": 1.2,
        "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
        "object_ownership": s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
    }


def encrypted_with(key: kms.IKey) -> dict[str, Any]:
    """Settings of `s3.Bucket` that make a key the one that objects are encrypted with."""
    return {"encryption": s3.BucketEncryption.KMS, "encryption_key": key, "bucket_key_enabled": True}


def abort_incomplete_uploads() -> s3.LifecycleRule:
    """What an interrupted upload leaves is paid for, and no listing shows it."""
    return s3.LifecycleRule(
        id="abort-incomplete-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(7)
    )


def refuse_other_accounts(bucket: s3.Bucket) -> None:
    """Whatever roles of other accounts were granted. Services act for this account in their own name."""
    bucket.add_to_resource_policy(
        iam.PolicyStatement(
            sid="RefuseOtherAccounts",
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


def refuse_other_keys(bucket: s3.Bucket, key: kms.IKey) -> None:
    """Uploads that ask for no encryption get the bucket's key; those that ask for another are refused."""
    algorithm, key_id = "s3:x-amz-server-side-encryption", "s3:x-amz-server-side-encryption-aws-kms-key-id"
    refused = {
        "RefuseOtherEncryption": {
            "Null": {algorithm: "false"},
            "StringNotEquals": {algorithm: "aws:kms"},
        },
        # An upload that asks for KMS and names no key would get the one AWS keeps for the account.
        "RefuseOtherKeys": {
            "StringEquals": {algorithm: "aws:kms"},
            "StringNotEquals": {key_id: key.key_arn},
        },
    }
    for sid, conditions in refused.items():
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
