"""List EC2 resources: networks and their parts, snapshots, and images.

EC2 uses ids instead of names: tags, group names, and the network show the owner. A network's default
resources (main route table, default group) are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tritonstack.operations.audit.resources import AuditScope, AwsResource, Key, tags_of
from tritonstack.operations.aws import Cloud, pages

VPC = "AWS::EC2::VPC"
_PARTS = (
    ("describe_subnets", "Subnets", "AWS::EC2::Subnet", "SubnetId"),
    ("describe_route_tables", "RouteTables", "AWS::EC2::RouteTable", "RouteTableId"),
    ("describe_security_groups", "SecurityGroups", "AWS::EC2::SecurityGroup", "GroupId"),
    ("describe_vpc_endpoints", "VpcEndpoints", "AWS::EC2::VPCEndpoint", "VpcEndpointId"),
    ("describe_network_interfaces", "NetworkInterfaces", "AWS::EC2::NetworkInterface", "NetworkInterfaceId"),
    ("describe_network_acls", "NetworkAcls", "AWS::EC2::NetworkAcl", "NetworkAclId"),
)
"""The operation, the key of its items, their type, and the key of their id."""

PART_TYPES = (VPC, *(kind for _, _, kind, _ in _PARTS), "AWS::EC2::FlowLog")
IMAGE_TYPES = ("AWS::EC2::Image", "AWS::EC2::Snapshot")


def networks(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List networks and their parts."""
    ec2 = cloud.client("ec2")
    own_vpcs = {vpc["VpcId"] for vpc in pages(ec2, "describe_vpcs", "Vpcs") if _is_ours(vpc, scope)}
    for vpc in own_vpcs:
        yield AwsResource(VPC, vpc)
    for operation, items_key, kind, id_key in _PARTS:
        for item in pages(ec2, operation, items_key):
            vpc = item.get("VpcId")
            if not _is_ignored(item) and (vpc in own_vpcs or _is_ours(item, scope)):
                yield AwsResource(kind, item[id_key], _tags(item), within=_network(vpc, own_vpcs))
    for log in pages(ec2, "describe_flow_logs", "FlowLogs"):
        vpc = log.get("ResourceId")
        if vpc in own_vpcs or _is_ours(log, scope):
            yield AwsResource(
                "AWS::EC2::FlowLog", log["FlowLogId"], _tags(log), within=_network(vpc, own_vpcs)
            )


def machine_images(cloud: Cloud, scope: AuditScope) -> Iterator[AwsResource]:
    """List images and snapshots of this account; no stack creates any, so they are leftovers."""
    ec2 = cloud.client("ec2")
    for image in pages(ec2, "describe_images", "Images", Owners=["self"]):
        if _is_ours(image, scope):
            yield AwsResource("AWS::EC2::Image", image["ImageId"], _tags(image))
    for snapshot in pages(ec2, "describe_snapshots", "Snapshots", OwnerIds=["self"]):
        if _is_ours(snapshot, scope):
            yield AwsResource("AWS::EC2::Snapshot", snapshot["SnapshotId"], _tags(snapshot))


def _network(vpc: str | None, own_vpcs: set[str]) -> Key | None:
    return (VPC, vpc) if vpc in own_vpcs and vpc else None


def _tags(item: Mapping[str, Any]) -> dict[str, str]:
    return tags_of(item.get("Tags") or item.get("TagSet") or ())


def _is_ours(item: Mapping[str, Any], scope: AuditScope) -> bool:
    names = (str(item.get(key, "")) for key in ("GroupName", "Name", "Description"))
    return scope.tagged(_tags(item)) or any(scope.names(name) for name in names)


def _is_ignored(item: Mapping[str, Any]) -> bool:
    """Return whether an item is a default of its network, or deleted and still listed."""
    is_default = item.get("IsDefault") or item.get("GroupName") == "default"
    is_main_table = any(association.get("Main") for association in item.get("Associations", ()))
    return bool(is_default or is_main_table or str(item.get("State")).lower() == "deleted")
