"""What becomes of things that hold data when their stack is destroyed."""

from __future__ import annotations

import aws_cdk as cdk

from catalog.environments import EnvironmentSpec


def removal_policy(environment: EnvironmentSpec) -> cdk.RemovalPolicy:
    """The environment's choice in CDK's word."""
    return cdk.RemovalPolicy.DESTROY if environment.removal == "destroy" else cdk.RemovalPolicy.RETAIN
