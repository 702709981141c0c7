"""AWS::EC2::SubnetRouteTableAssociation."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK


class SubnetRouteTableAssociation(Provider):
    """Identifier: the association's id."""

    type_name = "AWS::EC2::SubnetRouteTableAssociation"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "RouteTableId": Property(create_only=True, required=True),
        "SubnetId": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Let the table route the subnet."""
        made = request.client("ec2").associate_route_table(**request.api("RouteTableId", "SubnetId"))
        return str(made["AssociationId"])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Give the subnet back to the VPC's main table."""
        with ignoring("InvalidAssociationID.NotFound"):
            request.client("ec2").disassociate_route_table(AssociationId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}
