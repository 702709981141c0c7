"""A number that a deployment may replace: what scaling has set since the last one."""

from __future__ import annotations

import typing

import aws_cdk as cdk
from constructs import Construct


def number_parameter(scope: Construct, construct_id: str, default: int, description: str) -> int:
    """Declare a parameter of the stack; return a placeholder, which the template refers to."""
    parameter = cdk.CfnParameter(scope, construct_id, type="Number", default=default, description=description)
    return typing.cast("int", parameter.value_as_number)
