"""AWS::EC2::VPCEndpoint, of the gateway and of the interface kind."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    refuse_change,
)
from tritonstack_local.cloudformation.providers.ec2_common import (
    NO_NETWORK,
    TAGS,
    added_and_removed,
    drop_tags,
    put_tags,
)

# The policy of an endpoint whose template has none.
_EVERYTHING = {
    "Version": "2008-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}],
}


class VpcEndpoint(Provider):
    """Identifier: the endpoint's id."""

    type_name = "AWS::EC2::VPCEndpoint"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "PolicyDocument": Property(),
        "PrivateDnsEnabled": Property(shape="ec2:CreateVpcEndpoint.PrivateDnsEnabled"),
        "RouteTableIds": Property(),
        "SecurityGroupIds": Property(),
        "ServiceName": Property(create_only=True),
        "SubnetIds": Property(),
        "Tags": TAGS,
        "VpcEndpointType": Property(create_only=True),
        "VpcId": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Make the endpoint; a gateway, if the template does not say."""
        given = request.api(
            "ServiceName", "VpcId", "PrivateDnsEnabled", "RouteTableIds", "SecurityGroupIds", "SubnetIds"
        )
        made = request.client("ec2").create_vpc_endpoint(
            **given,
            VpcEndpointType=request.properties.get("VpcEndpointType", "Gateway"),
            PolicyDocument=_policy(request),
        )
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change what it reaches and who reaches it."""
        refuse_change(request, previous, "PrivateDnsEnabled")
        changes: dict[str, list[str]] = {}
        for name in ("RouteTableIds", "SecurityGroupIds", "SubnetIds"):
            added, removed = added_and_removed(request, previous, name)
            changes |= {f"Add{name}": added, f"Remove{name}": removed}
        request.client("ec2").modify_vpc_endpoint(
            VpcEndpointId=physical_id,
            PolicyDocument=_policy(request),
            **{name: ids for name, ids in changes.items() if ids},
        )
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the endpoint."""
        with ignoring("InvalidVpcEndpointId.NotFound"):
            request.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[physical_id])

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}


def _policy(request: ResourceRequest) -> str:
    policy = request.properties.get("PolicyDocument", _EVERYTHING)
    return policy if isinstance(policy, str) else json.dumps(policy)
