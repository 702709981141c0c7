"""AWS::EC2 networks: VPCs, subnets, route tables, VPC endpoints, and flow logs."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
    reject_change,
)

TAGS = Property(shape="ec2:TagList")
NO_NETWORK = "Stored and returned; models have no network."


def put_tags(request: ResourceRequest, physical_id: str) -> None:
    """Set the template's tags."""
    if request.properties.get("Tags"):
        request.client("ec2").create_tags(Resources=[physical_id], Tags=request.value("Tags"))


def drop_tags(request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
    """Remove tags that the template no longer has."""
    kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
    gone = [{"Key": tag["Key"]} for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
    if gone:
        request.client("ec2").delete_tags(Resources=[physical_id], Tags=gone)


def added_and_removed(
    request: ResourceRequest, previous: ResourceRequest, name: str
) -> tuple[list[str], list[str]]:
    """Compare two lists of ids."""
    wanted, had = request.properties.get(name, []), previous.properties.get(name, [])
    return [item for item in wanted if item not in had], [item for item in had if item not in wanted]


# Defaults of a VPC.
_DNS = {"EnableDnsSupport": True, "EnableDnsHostnames": False}


class VpcProvider(Provider):
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
        """Create the VPC."""
        made = request.client("ec2").create_vpc(**request.api("CidrBlock"))
        return str(made["Vpc"]["VpcId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set DNS settings and tags."""
        ec2 = request.client("ec2")
        for name, default in _DNS.items():
            wanted = request.flag(name) if name in request.properties else default
            ec2.modify_vpc_attribute(VpcId=physical_id, **{name: {"Value": wanted}})
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the VPC and the parts that EC2 created with it."""
        with ignoring("InvalidVpcID.NotFound"):
            request.client("ec2").delete_vpc(VpcId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id, addresses, and default security group."""
        of_vpc = [{"Name": "vpc-id", "Values": [physical_id]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = request.client("ec2").describe_security_groups(Filters=of_vpc)["SecurityGroups"]
        return {
            "CidrBlock": request.properties["CidrBlock"],
            "DefaultSecurityGroup": group["GroupId"],
            "VpcId": physical_id,
        }


class SubnetProvider(Provider):
    """Identifier: the subnet's id."""

    type_name = "AWS::EC2::Subnet"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "AvailabilityZone": Property(create_only=True),
        "AvailabilityZoneId": Property(create_only=True),
        "CidrBlock": Property(create_only=True),
        "MapPublicIpOnLaunch": Property(),
        "Tags": TAGS,
        "VpcId": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"AvailabilityZone", "SubnetId"})

    def create(self, request: ResourceRequest) -> str:
        """Create the subnet."""
        names = ("VpcId", "AvailabilityZone", "AvailabilityZoneId", "CidrBlock")
        made = request.client("ec2").create_subnet(**request.api(*names))
        return str(made["Subnet"]["SubnetId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set public address assignment and tags."""
        request.client("ec2").modify_subnet_attribute(
            SubnetId=physical_id, MapPublicIpOnLaunch={"Value": request.flag("MapPublicIpOnLaunch")}
        )
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the subnet."""
        with ignoring("InvalidSubnetID.NotFound"):
            request.client("ec2").delete_subnet(SubnetId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id and zone."""
        (found,) = request.client("ec2").describe_subnets(SubnetIds=[physical_id])["Subnets"]
        return {"AvailabilityZone": found["AvailabilityZone"], "SubnetId": physical_id}


class RouteTableProvider(Provider):
    """Identifier: the table's id."""

    type_name = "AWS::EC2::RouteTable"
    kept_only = NO_NETWORK
    properties: ClassVar = {"Tags": TAGS, "VpcId": Property(create_only=True, required=True)}
    attribute_names = frozenset({"RouteTableId"})

    def create(self, request: ResourceRequest) -> str:
        """Create the table."""
        made = request.client("ec2").create_route_table(**request.api("VpcId"))
        return str(made["RouteTable"]["RouteTableId"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the table."""
        with ignoring("InvalidRouteTableID.NotFound"):
            request.client("ec2").delete_route_table(RouteTableId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"RouteTableId": physical_id}


class SubnetRouteTableAssociationProvider(Provider):
    """Identifier: the association's id."""

    type_name = "AWS::EC2::SubnetRouteTableAssociation"
    kept_only = NO_NETWORK
    properties: ClassVar = {
        "RouteTableId": Property(create_only=True, required=True),
        "SubnetId": Property(create_only=True, required=True),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Associate the table with the subnet."""
        made = request.client("ec2").associate_route_table(**request.api("RouteTableId", "SubnetId"))
        return str(made["AssociationId"])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the association; the VPC's main table applies again."""
        with ignoring("InvalidAssociationID.NotFound"):
            request.client("ec2").disassociate_route_table(AssociationId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}


# Default policy of an endpoint.
_EVERYTHING = {
    "Version": "2008-10-17",
    "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}],
}


class VpcEndpointProvider(Provider):
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
        """Create the endpoint; a gateway by default."""
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
        """Change the policy, subnets, route tables, and security groups."""
        reject_change(request, previous, "PrivateDnsEnabled")
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


_SETTINGS = (
    "DeliverLogsPermissionArn",
    "LogDestination",
    "LogDestinationType",
    "LogFormat",
    "LogGroupName",
    "MaxAggregationInterval",
    "TrafficType",
)


class FlowLogProvider(Provider):
    """Identifier: the flow log's id. Only its tags can change."""

    type_name = "AWS::EC2::FlowLog"
    kept_only = "Stored and returned; there is no traffic to log."
    properties: ClassVar = {
        "ResourceId": Property(create_only=True, required=True),
        "ResourceType": Property(create_only=True, required=True),
        "Tags": TAGS,
        **{name: Property(shape=f"ec2:CreateFlowLogs.{name}", create_only=True) for name in _SETTINGS},
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Create the flow log."""
        made = request.client("ec2").create_flow_logs(
            ResourceIds=[request.properties["ResourceId"]], **request.api("ResourceType", *_SETTINGS)
        )
        for rejected in made.get("Unsuccessful", []):
            raise ProviderError(rejected["Error"]["Message"])
        return str(made["FlowLogIds"][0])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the flow log."""
        with ignoring("InvalidFlowLogId.NotFound"):
            request.client("ec2").delete_flow_logs(FlowLogIds=[physical_id])

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}
