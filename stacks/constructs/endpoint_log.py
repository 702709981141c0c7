"""The log group of an endpoint's containers.

CloudWatch Logs encrypts it with its own key: it takes a customer's key by ARN only, and the environment's
key is known to this stack by its alias.
"""

from __future__ import annotations

from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.deployment import EndpointDeployment
from stacks.removal import removal_policy


class EndpointLog(Construct):
    """Made before the endpoint, so that what it says is not kept forever."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: EndpointDeployment) -> None:
        super().__init__(scope, construct_id)
        group = logs.CfnLogGroup(
            self,
            "Group",
            log_group_name=deployment.log_group_name,
            retention_in_days=deployment.endpoint.log_retention_days,
        )
        group.apply_removal_policy(removal_policy(deployment.environment))
