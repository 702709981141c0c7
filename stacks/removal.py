"""Choose the removal policy of stateful resources."""

from __future__ import annotations

import aws_cdk as cdk

from tritonstack.spec.environments.environment import EnvironmentSpec


def removal_policy(environment: EnvironmentSpec) -> cdk.RemovalPolicy:
    """Return the CDK removal policy of the environment.

    Retained resources are still deleted if the deployment that creates them fails: they are empty, and their
    names must be free for the next attempt.
    """
    if environment.removal == "destroy":
        return cdk.RemovalPolicy.DESTROY
    return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
