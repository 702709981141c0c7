"""A value that one stack leaves for others, under a name they know."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct


class SharedValue(Construct):
    """An SSM parameter: unlike an export, it locks no stack to those that read it."""

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
