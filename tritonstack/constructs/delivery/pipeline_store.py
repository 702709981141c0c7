"""Create the pipeline's bucket, log group, and key."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.data.buckets import abort_incomplete_uploads, private_bucket
from tritonstack.constructs.data.encryption_key import EncryptionKey
from tritonstack.constructs.iam.skipped_checks import skip_check

_KEPT_DAYS = 30


class PipelineStore(Construct):
    """Create the stores with their retention: files for a month, logs for a year."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str) -> None:
        super().__init__(scope, construct_id)
        self.log_name = f"/{name}/steps"
        self.key = EncryptionKey(
            self,
            "Encryption",
            alias=naming.key_alias(name),
            description=f"Encrypts the files and logs of the pipeline {name}",
            removal=cdk.RemovalPolicy.RETAIN,
            log_groups=[self.log_name],
        ).key
        self.log = logs.LogGroup(
            self,
            "Log",
            log_group_name=self.log_name,
            retention=logs.RetentionDays.ONE_YEAR,
            encryption_key=self.key,
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        self._bucket = self._handed()
        self.bucket = s3.Bucket.from_bucket_attributes(
            self,
            "Given",
            bucket_name=self._bucket.bucket_name,
            encryption_key=kms.Key.from_key_arn(self, "GivenKey", self.key.key_arn),
        )
        """Return the key or bucket in a form that CDK constructs cannot change; roles define their
        permissions."""

    def leave_to_roles(self) -> None:
        """Remove the log group access that the CDK grants to the whole account."""
        self.log.node.try_remove_child("Policy")

    def _handed(self) -> s3.Bucket:
        bucket = private_bucket(
            self,
            "Handed",
            key=self.key,
            any_key=True,
            removal_policy=cdk.RemovalPolicy.RETAIN,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    id="expire",
                    expiration=cdk.Duration.days(_KEPT_DAYS),
                    noncurrent_version_expiration=cdk.Duration.days(1),
                ),
                abort_incomplete_uploads(),
            ],
        )
        because = "objects expire after a month; CodePipeline's history records who received them"
        cdk.Validations.of(bucket).acknowledge(
            cdk.Acknowledgment(id="AwsSolutions::AwsSolutions-S1", reason=because)
        )
        skip_check(bucket, "CKV_AWS_18", because=because)
        return bucket
