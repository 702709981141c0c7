"""The bucket that artifacts lie in, and the bucket that its access log goes to.

Neither has CDK's `auto_delete_objects`: that is a Lambda function, and `tritonstack destroy` empties
the buckets of an environment that may be destroyed without one.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from catalog.environments import EnvironmentSpec
from stacks.removal import removal_policy

_TLS_1_2 = 1.2


class ArtifactStore(Construct):
    """Artifacts are content-addressed: an object is written once and never changed."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentSpec,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log_bucket = s3.Bucket(
            self,
            "LogBucket",
            bucket_name=environment.log_bucket,
            # S3 delivers access logs only to buckets that are encrypted with its own key.
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            minimum_tls_version=_TLS_1_2,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=removal_policy(environment),
            lifecycle_rules=[
                s3.LifecycleRule(id="expire", expiration=cdk.Duration.days(365)),
                _abort_incomplete_uploads(),
            ],
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=environment.artifact_bucket,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            enforce_ssl=True,
            minimum_tls_version=_TLS_1_2,
            versioned=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            server_access_logs_bucket=self.log_bucket,
            server_access_logs_prefix="artifacts/",
            removal_policy=removal_policy(environment),
            lifecycle_rules=[
                s3.LifecycleRule(
                    # A deleted artifact can be brought back for a month.
                    id="expire-noncurrent-versions",
                    noncurrent_version_expiration=cdk.Duration.days(30),
                    expired_object_delete_marker=True,
                ),
                _abort_incomplete_uploads(),
            ],
        )


def _abort_incomplete_uploads() -> s3.LifecycleRule:
    return s3.LifecycleRule(
        id="abort-incomplete-uploads", abort_incomplete_multipart_upload_after=cdk.Duration.days(7)
    )
