"""AWS::EC2::SecurityGroupEgress."""

from __future__ import annotations

from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK
from tritonstack_local.cloudformation.providers.ec2_securitygroupingress import SecurityGroupIngress


class SecurityGroupEgress(SecurityGroupIngress):
    """A rule for the other direction."""

    type_name = "AWS::EC2::SecurityGroupEgress"
    kept_only = NO_NETWORK
    direction: ClassVar = "egress"
    properties: ClassVar = {
        "CidrIp": Property(create_only=True),
        "CidrIpv6": Property(create_only=True),
        "Description": Property(),
        "DestinationPrefixListId": Property(create_only=True),
        "DestinationSecurityGroupId": Property(create_only=True),
        "FromPort": Property(create_only=True),
        "GroupId": Property(create_only=True, required=True),
        "IpProtocol": Property(create_only=True, required=True),
        "ToPort": Property(create_only=True),
    }
