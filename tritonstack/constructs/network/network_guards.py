"""The two security groups of a network: what endpoints may reach, and who reaches AWS's services.

The VPC's own default group cannot be closed by CloudFormation without a custom resource; nothing is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

_HTTPS: Mapping[str, Any] = {"ip_protocol": "tcp", "from_port": 443, "to_port": 443}
# A group without a rule for what goes out would let everything out. This one lets out nothing that exists.
_NOTHING = ec2.CfnSecurityGroup.EgressProperty(
    ip_protocol="icmp",
    from_port=252,
    to_port=86,
    cidr_ip="255.255.255.255/32",
    description="nothing goes out",
)


class NetworkGuards(Construct):
    """One group is for SageMaker's endpoints, the other for the interfaces of AWS's services."""

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
                # S3's addresses are a prefix list whose id only a lookup gives. The routes of this network
                # lead to itself and, through the gateway, to S3: every other address is out of reach.
                ec2.CfnSecurityGroup.EgressProperty(
                    **_HTTPS, cidr_ip="0.0.0.0/0", description="S3, through its gateway"
                ),
            ],
            tags=[cdk.CfnTag(key="Name", value=f"{name}-endpoints")],
        )
        self.endpoints_group_id = endpoints.attr_group_id
        # Apart from the group, since each of the two names the other.
        ec2.CfnSecurityGroupIngress(
            self,
            "EndpointsReachServices",
            **_HTTPS,
            group_id=self.services_group_id,
            source_security_group_id=self.endpoints_group_id,
            description="endpoints of this environment",
        )
