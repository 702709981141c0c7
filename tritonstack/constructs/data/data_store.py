"""Create the data bucket: captured requests, and the requests and answers of asynchronous endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tritonstack.constructs.data.private_buckets import (
    deny_other_accounts,
    deny_other_keys,
    encrypted_with,
    private_settings,
)
from tritonstack.constructs.iam.skipped_checks import skip_check

DEFAULT_EXPIRY_DAYS = 90


class DataStore(Construct):
    """Create an unversioned bucket whose objects expire: per prefix as `expiry_days` says, the rest later.

    Without versions, a deleted object is gone at once.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        key: kms.IKey,
        access_log: s3.IBucket,
        expiry_days: Mapping[str, int],
        removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            server_access_logs_bucket=access_log,
            server_access_logs_prefix="data/",
            removal_policy=removal,
            **encrypted_with(key),
            **private_settings(),
        )
        deny_other_accounts(self.bucket)
        deny_other_keys(self.bucket, key)
        resource = cast("s3.CfnBucket", self.bucket.node.default_child)
        # Set the rules in one step on the CloudFormation resource: there are up to four rules per endpoint.
        resource.add_property_override("LifecycleConfiguration.Rules", _rules(expiry_days))
        skip_check(
            self.bucket,
            "CKV_AWS_21",
            because="versions would keep personal data beyond its deletion date",
        )


def _rules(expiry_days: Mapping[str, int]) -> list[dict[str, Any]]:
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
