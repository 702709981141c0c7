"""Retain what an endpoint may still serve after an update.

If SageMaker rolls an update back, CloudFormation may still report success. It would then delete the replaced
or removed configuration and model, which serve. `tritonstack deploy` deletes them once nothing uses them.
"""

from __future__ import annotations

import aws_cdk as cdk

from tritonstack.base import naming

_OVER_OWN_TAGS = 300
"""Priority of the tag: a tag of the same name on the app or stack cannot change it."""


def retain_serving(resource: cdk.CfnResource) -> None:
    """Retain a configuration or model, and tag it with its stack, so that it can be found later.

    RetainExceptOnCreate is not enough: if an update fails, the endpoint may serve what that update created.
    """
    resource.apply_removal_policy(cdk.RemovalPolicy.RETAIN)
    stack = cdk.Stack.of(resource).stack_name
    cdk.Tags.of(resource).add(naming.OWNER_TAG, stack, priority=_OVER_OWN_TAGS)
