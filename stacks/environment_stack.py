"""What the stacks of an environment have in common: account, region, tags, and protection from deletion."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from catalog.environments import EnvironmentSpec


class EnvironmentStack(cdk.Stack):
    """A stack in one environment's account and region."""

    def __init__(
        self, scope: Construct, *, stack_name: str, description: str, environment: EnvironmentSpec
    ) -> None:
        tags = {"project": environment.name_prefix, "environment": environment.name, **environment.tags}
        super().__init__(
            scope,
            stack_name,
            stack_name=stack_name,
            description=description,
            env=cdk.Environment(account=environment.account, region=environment.region),
            termination_protection=environment.removal == "retain",
            tags=tags,
        )
        for key, value in tags.items():
            cdk.Tags.of(self).add(key, value)

    def output(self, logical_id: str, *, value: str, description: str) -> None:
        """Show a value on the terminal after a deploy. It is not exported: no stack may lean on it."""
        cdk.CfnOutput(self, logical_id, value=value, description=description)
