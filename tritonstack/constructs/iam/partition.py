"""The partition that a stack goes to: `aws`, for one of AWS's own regions."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import region_info
from constructs import Construct


def partition_of(construct: Construct) -> str:
    """Plain text where the stack says which region it goes to; the CDK's own is left to the deploy unless
    an app asks otherwise, and CloudFormation takes no such value everywhere."""
    stack = cdk.Stack.of(construct)
    if cdk.Token.is_unresolved(stack.region):
        return stack.partition
    return region_info.RegionInfo.get(stack.region).partition or stack.partition
