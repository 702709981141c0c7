"""The base class of an environment's stacks: account, region, tags, permissions boundary, and shared ids."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.data.stored_values import share_value
from tritonstack.files.environment.environment import EnvironmentSpec


class EnvironmentStack(cdk.Stack):
    """A stack in one environment's account and region."""

    def __init__(
        self, scope: Construct, *, stack_name: str, description: str, environment: EnvironmentSpec
    ) -> None:
        tags = {**environment.marks, **environment.tags}
        super().__init__(
            scope,
            stack_name,
            stack_name=stack_name,
            description=description,
            env=cdk.Environment(account=environment.account, region=environment.region),
            termination_protection=environment.is_protected,
            tags=tags,
            synthesizer=cdk.DefaultStackSynthesizer(qualifier=environment.bootstrap_qualifier),
            permissions_boundary=cdk.PermissionsBoundary.from_name(environment.roles_boundary),
        )
        self._environment = environment
        for key, value in tags.items():
            cdk.Tags.of(self).add(key, value)

    @property
    def removal(self) -> cdk.RemovalPolicy:
        """The removal policy of stateful resources.

        Retained resources are still deleted if the deployment that creates them fails: they are empty, and
        their names must be free for the next attempt.
        """
        if self._environment.removal == "destroy":
            return cdk.RemovalPolicy.DESTROY
        return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE

    def output(self, logical_id: str, *, value: str, description: str) -> None:
        """Add a CloudFormation output without an export."""
        cdk.CfnOutput(self, logical_id, value=value, description=description)

    def share(self, logical_id: str, *, name: str, value: str | Sequence[str], description: str) -> None:
        """Publish a value to the other stacks of this environment."""
        parameter = naming.parameter_name(self._environment.base, name)
        share_value(self, logical_id, name=parameter, value=value, description=description)

    def shared_value(self, logical_id: str, *, name: str) -> str:
        """Return the id that another stack of this environment published (names: tritonstack.base.naming).

        CloudFormation resolves it at deployment; synthesis needs no account access.
        """
        return self._shared(logical_id, name, "String").value_as_string

    def shared_values(self, logical_id: str, *, name: str) -> list[str]:
        """Return the list of ids that another stack of this environment published."""
        return self._shared(logical_id, name, "List<String>").value_as_list

    def _shared(self, logical_id: str, name: str, value_type: str) -> cdk.CfnParameter:
        return cdk.CfnParameter(
            self,
            logical_id,
            type=f"AWS::SSM::Parameter::Value<{value_type}>",
            default=naming.parameter_name(self._environment.base, name),
            description="Published by another stack of this environment",
        )
