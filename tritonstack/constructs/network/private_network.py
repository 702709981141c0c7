"""Create an isolated VPC: private subnets in several zones, without an internet gateway."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class PrivateNetwork(Construct):
    """Create a VPC with one private subnet per zone, and one route table.

    `zones` are zone ids, or how many of the account's first zones to use. Each subnet has a quarter of the
    addresses, so a zone can be added later.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, cidr: str, zones: Sequence[str] | int
    ) -> None:
        super().__init__(scope, construct_id)
        self.cidr = cidr
        vpc = ec2.CfnVPC(
            self,
            "Vpc",
            cidr_block=cidr,
            # Both are needed to resolve AWS service names to the interface endpoints.
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=_named(name),
        )
        routes = ec2.CfnRouteTable(self, "Routes", vpc_id=vpc.attr_vpc_id, tags=_named(name))
        self.vpc_id = vpc.attr_vpc_id
        self.route_table_id = routes.attr_route_table_id
        blocks = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=2))
        zone_ids = [None] * zones if isinstance(zones, int) else zones
        self.subnet_ids = [
            self._subnet(name, index, str(blocks[index]), zone_id) for index, zone_id in enumerate(zone_ids)
        ]

    def _subnet(self, name: str, index: int, block: str, zone_id: str | None) -> str:
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet{index + 1}",
            vpc_id=self.vpc_id,
            # CloudFormation selects the zones, so synthesis needs no account access.
            availability_zone=None if zone_id else cdk.Fn.select(index, cdk.Fn.get_azs()),
            availability_zone_id=zone_id,
            cidr_block=block,
            map_public_ip_on_launch=False,
            tags=_named(f"{name}-private-{index + 1}"),
        )
        ec2.CfnSubnetRouteTableAssociation(
            self,
            f"Routes{index + 1}",
            subnet_id=subnet.attr_subnet_id,
            route_table_id=self.route_table_id,
        )
        return subnet.attr_subnet_id


def _named(name: str) -> list[cdk.CfnTag]:
    return [cdk.CfnTag(key="Name", value=name)]
