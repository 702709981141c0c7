"""What becomes of things that hold data when their stack is destroyed."""

from __future__ import annotations

import aws_cdk as cdk

from tritonstack.spec.environments.environment import EnvironmentSpec


def removal_policy(environment: EnvironmentSpec) -> cdk.RemovalPolicy:
    """The environment's choice in CDK's word.

    What is retained still goes when the very deployment that made it fails: it holds nothing yet, and its
    name would be taken when the deployment is tried again.
    """
    if environment.removal == "destroy":
        return cdk.RemovalPolicy.DESTROY
    return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
