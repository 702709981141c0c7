"""Return the AWS partition of a stack."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import region_info
from constructs import Construct


def partition_of(construct: Construct) -> str:
    """Return plain text if the stack's region is known, because CloudFormation does not accept a token
    everywhere."""
    stack = cdk.Stack.of(construct)
    if cdk.Token.is_unresolved(stack.region):
        return stack.partition
    return region_info.RegionInfo.get(stack.region).partition or stack.partition
