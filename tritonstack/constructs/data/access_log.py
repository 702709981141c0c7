"""Create the bucket for the access logs of other buckets."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.constructs.data.private_buckets import (
    abort_incomplete_uploads,
    deny_other_accounts,
    private_settings,
)
from tritonstack.constructs.iam.skipped_checks import skip_check


class AccessLog(Construct):
    """Create a bucket whose objects expire after a year."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, removal: cdk.RemovalPolicy) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            # S3 delivers access logs only to buckets with SSE-S3 encryption.
            encryption=s3.BucketEncryption.S3_MANAGED,
            removal_policy=removal,
            lifecycle_rules=[
                s3.LifecycleRule(id="expire", expiration=cdk.Duration.days(365)),
                abort_incomplete_uploads(),
            ],
            **private_settings(),
        )
        deny_other_accounts(self.bucket)
        skip_check(
            self.bucket,
            "CKV_AWS_18",
            because=("this is the access log bucket; logging its own writes would loop"),
        )
        skip_check(self.bucket, "CKV_AWS_21", because="S3 writes each log object once, under a unique name")
