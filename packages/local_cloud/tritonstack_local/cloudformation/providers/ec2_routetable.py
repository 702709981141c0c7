"""AWS::EC2::RouteTable."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK, TAGS, drop_tags, put_tags


class RouteTable(Provider):
    """Identifier: the table's id."""

    type_name = "AWS::EC2::RouteTable"
    kept_only = NO_NETWORK
    properties: ClassVar = {"Tags": TAGS, "VpcId": Property(create_only=True, required=True)}
    attribute_names = frozenset({"RouteTableId"})

    def create(self, request: ResourceRequest) -> str:
        """Make the table."""
        made = request.client("ec2").create_route_table(**request.api("VpcId"))
        return str(made["RouteTable"]["RouteTableId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the table."""
        with ignoring("InvalidRouteTableID.NotFound"):
            request.client("ec2").delete_route_table(RouteTableId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"RouteTableId": physical_id}
