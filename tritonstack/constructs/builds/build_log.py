"""The log group of an environment's builds."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct


class BuildLog(Construct):
    """Create an encrypted log group with the environment's retention."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        retention_days: int,
        key_arn: str,
        removal: cdk.RemovalPolicy,
    ) -> None:
        super().__init__(scope, construct_id)
        group = logs.CfnLogGroup(
            self, "Group", log_group_name=name, retention_in_days=retention_days, kms_key_id=key_arn
        )
        group.apply_removal_policy(removal)
        self.name = group.ref
