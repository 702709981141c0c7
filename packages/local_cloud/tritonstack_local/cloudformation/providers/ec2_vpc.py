"""AWS::EC2::VPC."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK, TAGS, drop_tags, put_tags

# What a VPC has if the template does not say.
_DNS = {"EnableDnsSupport": True, "EnableDnsHostnames": False}


class Vpc(Provider):
    """Identifier: the VPC's id."""

    type_name = "AWS::EC2::VPC"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "CidrBlock": Property(create_only=True),
        "EnableDnsHostnames": Property(),
        "EnableDnsSupport": Property(),
        "Tags": TAGS,
    }
    attribute_names = frozenset({"CidrBlock", "DefaultSecurityGroup", "VpcId"})

    def create(self, request: ResourceRequest) -> str:
        """Make the VPC."""
        made = request.client("ec2").create_vpc(**request.api("CidrBlock"))
        return str(made["Vpc"]["VpcId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set names and tags."""
        ec2 = request.client("ec2")
        for name, default in _DNS.items():
            wanted = request.flag(name) if name in request.properties else default
            ec2.modify_vpc_attribute(VpcId=physical_id, **{name: {"Value": wanted}})
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the VPC with what EC2 made along with it."""
        with ignoring("InvalidVpcID.NotFound"):
            request.client("ec2").delete_vpc(VpcId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id, addresses and the group that EC2 made."""
        of_vpc = [{"Name": "vpc-id", "Values": [physical_id]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = request.client("ec2").describe_security_groups(Filters=of_vpc)["SecurityGroups"]
        return {
            "CidrBlock": request.properties["CidrBlock"],
            "DefaultSecurityGroup": group["GroupId"],
            "VpcId": physical_id,
        }
