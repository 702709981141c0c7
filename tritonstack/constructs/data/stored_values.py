"""Publish a value from one stack to others under a well-known name."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct


class SharedValue(Construct):
    """Create an SSM parameter. Unlike a CloudFormation export, it does not block changes to the exporting
    stack."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, value: str | Sequence[str], description: str
    ) -> None:
        super().__init__(scope, construct_id)
        several = not isinstance(value, str)
        ssm.CfnParameter(
            self,
            "Parameter",
            name=name,
            type="StringList" if several else "String",
            value=cdk.Fn.join(",", list(value)) if several else str(value),
            description=description,
        )


def log_group(
    scope: Construct, *, name: str, retention_days: int, key_arn: str | None, removal: cdk.RemovalPolicy
) -> str:
    """Return a reference to the group."""
    group = logs.CfnLogGroup(
        scope, "Group", log_group_name=name, retention_in_days=retention_days, kms_key_id=key_arn
    )
    group.apply_removal_policy(removal)
    return group.ref


def number_parameter(scope: Construct, construct_id: str, default: int, description: str) -> int:
    """Declare a parameter of the stack; return a placeholder, which the template refers to."""
    parameter = cdk.CfnParameter(scope, construct_id, type="Number", default=default, description=description)
    return typing.cast("int", parameter.value_as_number)
