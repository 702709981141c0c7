"""Publish a value from one stack to others under a well-known name."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
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
