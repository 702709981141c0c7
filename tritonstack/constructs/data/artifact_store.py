"""Create the artifact bucket.

It does not use CDK's `auto_delete_objects`, which adds a Lambda function; `tritonstack destroy` empties the
bucket if the environment allows it.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.base.naming import MODELS, SUPERSEDED_TAG
from tritonstack.constructs.data.private_buckets import (
    abort_incomplete_uploads,
    deny_other_accounts,
    deny_other_keys,
    encrypted_with,
    private_settings,
)


class ArtifactBucket(Construct):
    """Create a versioned bucket for content-addressed artifacts, which are never overwritten."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        key: kms.IKey,
        access_log: s3.IBucket,
        removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            versioned=True,
            server_access_logs_bucket=access_log,
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
                    # Expire only objects that tritonstack/operations/locks/retention.py tagged.
                    id="expire-superseded-artifacts",
                    prefix=MODELS,
                    tag_filters=dict([SUPERSEDED_TAG]),
                    expiration=cdk.Duration.days(30),
                ),
                abort_incomplete_uploads(),
            ],
            **encrypted_with(key),
            **private_settings(),
        )
        deny_other_accounts(self.bucket)
        deny_other_keys(self.bucket, key)
