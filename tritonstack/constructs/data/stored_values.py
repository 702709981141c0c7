"""Values that stacks share, values that a deployment replaces, and log groups."""

from __future__ import annotations

import typing
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm
from constructs import Construct


def share_value(
    scope: Construct, construct_id: str, *, name: str, value: str | Sequence[str], description: str
) -> None:
    """Create an SSM parameter. Unlike a CloudFormation export, it does not block changes to the exporting
    stack."""
    scope = Construct(scope, construct_id)
    several = not isinstance(value, str)
    ssm.CfnParameter(
        scope,
        "Parameter",
        name=name,
        type="StringList" if several else "String",
        value=cdk.Fn.join(",", list(value)) if several else str(value),
        description=description,
    )


def log_group(
    scope: Construct, *, name: str, retention_days: int, key_arn: str | None, removal: cdk.RemovalPolicy
) -> str:
    """Create an encrypted log group with its retention, before the service that writes to it would."""
    group = logs.CfnLogGroup(
        scope, "Group", log_group_name=name, retention_in_days=retention_days, kms_key_id=key_arn
    )
    group.apply_removal_policy(removal)
    return group.ref


def number_parameter(scope: Construct, construct_id: str, default: int, description: str) -> int:
    """Declare a parameter of the stack; return a placeholder, which the template refers to."""
    parameter = cdk.CfnParameter(scope, construct_id, type="Number", default=default, description=description)
    return typing.cast("int", parameter.value_as_number)
