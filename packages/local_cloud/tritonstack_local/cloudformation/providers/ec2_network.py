"""AWS::EC2 networks: VPCs, subnets, route tables, VPC endpoints, and flow logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Creation,
    Deletion,
    Property,
    PropertySetting,
    Provider,
    ProviderError,
    ResourceRequest,
    Tagging,
    alike,
    flag,
    removed_items,
    text,
)

TAGS = Property(shape="ec2:TagList")
NO_NETWORK = "Stored and returned; models have no network."


_TAGGING = Tagging("create_tags", "delete_tags", {})  # with other arguments: see Ec2Provider


@dataclass(frozen=True, kw_only=True)
class Ec2Provider(Provider):
    """Identifier: the id that EC2 chooses."""

    kept_only: str = NO_NETWORK
    tagging: Tagging | None = _TAGGING

    def add_tags(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the template's tags."""
        request.client("ec2").create_tags(Resources=[physical_id], Tags=request.value("Tags"))

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        """Remove tags."""
        tags = [{"Key": key} for key in keys]
        request.client("ec2").delete_tags(Resources=[physical_id], Tags=tags)


def _flag(value: object) -> dict[str, bool]:
    return {"Value": flag(value)}


class VpcProvider(Ec2Provider):
    """VPCs. Deletion also deletes the parts that EC2 created with one."""

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id, addresses, and default security group."""
        of_vpc = [{"Name": "vpc-id", "Values": [physical_id]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = request.client("ec2").describe_security_groups(Filters=of_vpc)["SecurityGroups"]
        return {**super().read(request, physical_id), "DefaultSecurityGroup": group["GroupId"]}


_VPC = VpcProvider(
    type_name="AWS::EC2::VPC",
    identifier="VpcId",
    properties={
        **alike("CidrBlock", create_only=True),
        **alike("EnableDnsHostnames EnableDnsSupport"),
        "Tags": TAGS,
    },
    creation=Creation("create_vpc", "Vpc.VpcId"),
    settings={
        "EnableDnsSupport": PropertySetting(
            "modify_vpc_attribute", "EnableDnsSupport", default=True, write=_flag
        ),
        "EnableDnsHostnames": PropertySetting(
            "modify_vpc_attribute", "EnableDnsHostnames", default=False, write=_flag
        ),
    },
    deletion=Deletion("delete_vpc", "InvalidVpcID.NotFound"),
    attributes={"CidrBlock": "{CidrBlock}", "DefaultSecurityGroup": "", "VpcId": "{id}"},
)


class SubnetProvider(Ec2Provider):
    """Subnets."""

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id and zone."""
        (subnet,) = request.client("ec2").describe_subnets(SubnetIds=[physical_id])["Subnets"]
        return {"AvailabilityZone": subnet["AvailabilityZone"], "SubnetId": physical_id}


_SUBNET = SubnetProvider(
    type_name="AWS::EC2::Subnet",
    identifier="SubnetId",
    properties={
        **alike("AvailabilityZone AvailabilityZoneId CidrBlock", create_only=True),
        **alike("MapPublicIpOnLaunch"),
        "Tags": TAGS,
        **alike("VpcId", create_only=True, required=True),
    },
    creation=Creation("create_subnet", "Subnet.SubnetId"),
    settings={
        "MapPublicIpOnLaunch": PropertySetting(
            "modify_subnet_attribute", "MapPublicIpOnLaunch", default=False, write=_flag
        )
    },
    deletion=Deletion("delete_subnet", "InvalidSubnetID.NotFound"),
    attributes={"AvailabilityZone": "", "SubnetId": "{id}"},
)

_ROUTE_TABLE = Ec2Provider(
    type_name="AWS::EC2::RouteTable",
    identifier="RouteTableId",
    properties={"Tags": TAGS, **alike("VpcId", create_only=True, required=True)},
    creation=Creation("create_route_table", "RouteTable.RouteTableId"),
    deletion=Deletion("delete_route_table", "InvalidRouteTableID.NotFound"),
    attributes={"RouteTableId": "{id}"},
)

_ASSOCIATION = Ec2Provider(  # without one, the VPC's main table applies
    type_name="AWS::EC2::SubnetRouteTableAssociation",
    identifier="AssociationId",
    properties=alike("RouteTableId SubnetId", create_only=True, required=True),
    creation=Creation("associate_route_table", "AssociationId"),
    deletion=Deletion("disassociate_route_table", "InvalidAssociationID.NotFound"),
    attributes={"Id": "{id}"},
)

# Default policy of an endpoint.
_EVERYTHING = text(
    {
        "Version": "2008-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}],
    }
)
_IDS = ("RouteTableIds", "SecurityGroupIds", "SubnetIds")


class VpcEndpointProvider(Ec2Provider):
    """VPC endpoints; gateways by default."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the arguments of a new endpoint."""
        return {"VpcEndpointType": "Gateway", "PolicyDocument": _EVERYTHING, **super().arguments(request)}

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change the policy, subnets, route tables, and security groups."""
        super().update(request, physical_id, previous)
        added = {f"Add{name}": removed_items(previous, request, name) for name in _IDS}
        removed = {f"Remove{name}": removed_items(request, previous, name) for name in _IDS}
        request.client("ec2").modify_vpc_endpoint(
            VpcEndpointId=physical_id,
            PolicyDocument=request.value("PolicyDocument") or _EVERYTHING,
            **{name: ids for name, ids in {**added, **removed}.items() if ids},
        )


_VPC_ENDPOINT = VpcEndpointProvider(
    type_name="AWS::EC2::VPCEndpoint",
    identifier="VpcEndpointId",
    properties={
        **alike("PolicyDocument", as_text=True),
        **alike("RouteTableIds SecurityGroupIds SubnetIds"),
        **alike("PrivateDnsEnabled", operation="ec2:CreateVpcEndpoint"),
        "Tags": TAGS,
        **alike("ServiceName VpcEndpointType", create_only=True),
        **alike("VpcId", create_only=True, required=True),
    },
    creation=Creation("create_vpc_endpoint", "VpcEndpoint.VpcEndpointId"),
    unchangeable=("PrivateDnsEnabled",),
    deletion=Deletion("delete_vpc_endpoints", "InvalidVpcEndpointId.NotFound", takes_list=True),
    attributes={"Id": "{id}"},
)


class FlowLogProvider(Ec2Provider):
    """Flow logs. Only their tags can change."""

    def create(self, request: ResourceRequest) -> str:
        """Create the flow log."""
        arguments = self.arguments(request)
        answer = request.client("ec2").create_flow_logs(
            ResourceIds=[arguments.pop("ResourceId")], **arguments
        )
        for rejected in answer.get("Unsuccessful", []):
            raise ProviderError(rejected["Error"]["Message"])
        return str(answer["FlowLogIds"][0])


_FLOW_LOG = FlowLogProvider(
    type_name="AWS::EC2::FlowLog",
    kept_only="Stored and returned; there is no traffic to log.",
    identifier="FlowLogId",
    properties={
        **alike("ResourceId ResourceType", create_only=True, required=True),
        "Tags": TAGS,
        **alike(
            "DeliverLogsPermissionArn LogDestination LogDestinationType LogFormat LogGroupName "
            "MaxAggregationInterval TrafficType",
            operation="ec2:CreateFlowLogs",
            create_only=True,
        ),
    },
    deletion=Deletion("delete_flow_logs", "InvalidFlowLogId.NotFound", takes_list=True),
    attributes={"Id": "{id}"},
)

TYPES = (_VPC, _SUBNET, _ROUTE_TABLE, _ASSOCIATION, _VPC_ENDPOINT, _FLOW_LOG)
