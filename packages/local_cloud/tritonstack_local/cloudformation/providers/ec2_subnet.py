"""AWS::EC2::Subnet."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK, TAGS, drop_tags, put_tags


class Subnet(Provider):
    """Identifier: the subnet's id."""

    type_name = "AWS::EC2::Subnet"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "AvailabilityZone": Property(create_only=True),
        "CidrBlock": Property(create_only=True),
        "MapPublicIpOnLaunch": Property(),
        "Tags": TAGS,
        "VpcId": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"AvailabilityZone", "SubnetId"})

    def create(self, request: ResourceRequest) -> str:
        """Make the subnet."""
        made = request.client("ec2").create_subnet(**request.api("VpcId", "AvailabilityZone", "CidrBlock"))
        return str(made["Subnet"]["SubnetId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set whether machines get public addresses, and the tags."""
        request.client("ec2").modify_subnet_attribute(
            SubnetId=physical_id, MapPublicIpOnLaunch={"Value": request.flag("MapPublicIpOnLaunch")}
        )
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the subnet."""
        with ignoring("InvalidSubnetID.NotFound"):
            request.client("ec2").delete_subnet(SubnetId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id and zone."""
        (found,) = request.client("ec2").describe_subnets(SubnetIds=[physical_id])["Subnets"]
        return {"AvailabilityZone": found["AvailabilityZone"], "SubnetId": physical_id}
