"""The log group of an endpoint's containers."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.watched import Watched


class EndpointLog(Construct):
    """Made before the endpoint, so that what it says is not kept forever."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watched: Watched,
        retention_days: int,
        removal: cdk.RemovalPolicy,
        key_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        group = logs.CfnLogGroup(
            self,
            "Group",
            log_group_name=watched.log_group_name,
            retention_in_days=retention_days,
            kms_key_id=key_arn,
        )
        group.apply_removal_policy(removal)
