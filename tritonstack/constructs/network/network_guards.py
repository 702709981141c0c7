"""Create the security groups of a VPC: one for endpoints, one for AWS service interfaces.

CloudFormation cannot restrict the VPC's default group without a custom resource; nothing uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

_HTTPS: Mapping[str, Any] = {"ip_protocol": "tcp", "from_port": 443, "to_port": 443}
# A group without egress rules allows all egress. This rule allows only an unreachable address.
_NOTHING = ec2.CfnSecurityGroup.EgressProperty(
    ip_protocol="icmp",
    from_port=252,
    to_port=86,
    cidr_ip="255.255.255.255/32",
    description="nothing goes out",
)


class NetworkGuards(Construct):
    """Create one group for SageMaker endpoints and one for the interface endpoints of AWS services."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, vpc_id: str) -> None:
        super().__init__(scope, construct_id)
        services = ec2.CfnSecurityGroup(
            self,
            "Services",
            group_description="The interfaces of AWS services: endpoints of this environment come in",
            vpc_id=vpc_id,
            security_group_egress=[_NOTHING],
            tags=[cdk.CfnTag(key="Name", value=f"{name}-services")],
        )
        self.services_group_id = services.attr_group_id
        endpoints = ec2.CfnSecurityGroup(
            self,
            "Endpoints",
            group_description="SageMaker endpoints: nobody comes in, AWS services are reached over TLS",
            vpc_id=vpc_id,
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    **_HTTPS,
                    destination_security_group_id=self.services_group_id,
                    description="the interfaces of AWS services",
                ),
                # S3's prefix list id is only known by lookup. The routes of this network reach only the VPC
                # and, through the gateway endpoint, S3, so all other addresses are unreachable.
                ec2.CfnSecurityGroup.EgressProperty(
                    **_HTTPS, cidr_ip="0.0.0.0/0", description="S3, through its gateway"
                ),
            ],
            tags=[cdk.CfnTag(key="Name", value=f"{name}-endpoints")],
        )
        self.endpoints_group_id = endpoints.attr_group_id
        # Separate resources, because each of the two groups refers to the other.
        ec2.CfnSecurityGroupIngress(
            self,
            "EndpointsReachServices",
            **_HTTPS,
            group_id=self.services_group_id,
            source_security_group_id=self.endpoints_group_id,
            description="endpoints of this environment",
        )
