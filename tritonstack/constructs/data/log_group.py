"""Create an encrypted log group with its retention, before the service that writes to it would."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_group(
    scope: Construct, *, name: str, retention_days: int, key_arn: str | None, removal: cdk.RemovalPolicy
) -> str:
    """Return a reference to the group."""
    group = logs.CfnLogGroup(
        scope, "Group", log_group_name=name, retention_in_days=retention_days, kms_key_id=key_arn
    )
    group.apply_removal_policy(removal)
    return group.ref
