"""List EC2 resources: networks and their parts, snapshots, and images.

EC2 uses ids instead of names: tags, group names, and the network show the owner. A network's default
resources (main route table, default group) are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tritonstack.operations.audit.found import AuditScope, Found, Key, tags_of
from tritonstack.operations.aws import Cloud, pages

VPC = "AWS::EC2::VPC"


def networks(cloud: Cloud, scope: AuditScope) -> Iterator[Found]:
    """List networks and their parts."""
    ec2 = cloud.client("ec2")
    own_vpcs = {vpc["VpcId"] for vpc in pages(ec2, "describe_vpcs", "Vpcs") if _is_ours(vpc, scope)}
    for vpc in own_vpcs:
        yield Found(VPC, vpc)
    for operation, key, kind, name, parameters in _PARTS:
        for item in pages(ec2, operation, key):
            vpc = item.get("VpcId")
            if parameters(item) or not (vpc in own_vpcs or _is_ours(item, scope)):
                continue
            yield Found(kind, item[name], _tags(item), within=_network(vpc, own_vpcs))
    for log in pages(ec2, "describe_flow_logs", "FlowLogs"):
        vpc = log.get("ResourceId")
        if vpc in own_vpcs or _is_ours(log, scope):
            yield Found("AWS::EC2::FlowLog", log["FlowLogId"], _tags(log), within=_network(vpc, own_vpcs))


def machine_images(cloud: Cloud, scope: AuditScope) -> Iterator[Found]:
    """List images and snapshots of this account; no stack creates any, so they are leftovers."""
    ec2 = cloud.client("ec2")
    for image in pages(ec2, "describe_images", "Images", Owners=["self"]):
        if _is_ours(image, scope):
            yield Found("AWS::EC2::Image", image["ImageId"], _tags(image))
    for snapshot in pages(ec2, "describe_snapshots", "Snapshots", OwnerIds=["self"]):
        if _is_ours(snapshot, scope):
            yield Found("AWS::EC2::Snapshot", snapshot["SnapshotId"], _tags(snapshot))


def _network(vpc: str | None, own_vpcs: set[str]) -> Key | None:
    return (VPC, vpc) if vpc in own_vpcs and vpc else None


def _tags(item: Mapping[str, Any]) -> dict[str, str]:
    return tags_of(item.get("Tags") or item.get("TagSet") or ())


def _is_ours(item: Mapping[str, Any], scope: AuditScope) -> bool:
    named = (item.get(key, "") for key in ("GroupName", "Name", "Description"))
    return scope.tagged(_tags(item)) or any(scope.names(str(text)) for text in named)


def _is_main_table(item: Mapping[str, Any]) -> bool:
    return any(association.get("Main") for association in item.get("Associations", ()))


def _is_default_group(item: Mapping[str, Any]) -> bool:
    return bool(item["GroupName"] == "default")


def _is_default(item: Mapping[str, Any]) -> bool:
    return bool(item.get("IsDefault"))


def _matches_none(_: Mapping[str, Any]) -> bool:
    return False


def _is_gone(item: Mapping[str, Any]) -> bool:
    return str(item.get("State")).lower() == "deleted"


_PARTS: tuple[tuple[str, str, str, str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("describe_subnets", "Subnets", "AWS::EC2::Subnet", "SubnetId", _matches_none),
    ("describe_route_tables", "RouteTables", "AWS::EC2::RouteTable", "RouteTableId", _is_main_table),
    ("describe_security_groups", "SecurityGroups", "AWS::EC2::SecurityGroup", "GroupId", _is_default_group),
    ("describe_vpc_endpoints", "VpcEndpoints", "AWS::EC2::VPCEndpoint", "VpcEndpointId", _is_gone),
    (
        "describe_network_interfaces",
        "NetworkInterfaces",
        "AWS::EC2::NetworkInterface",
        "NetworkInterfaceId",
        _matches_none,
    ),
    ("describe_network_acls", "NetworkAcls", "AWS::EC2::NetworkAcl", "NetworkAclId", _is_default),
)
"""The operation, the key of its items, their type and id, and the items to ignore: defaults of a network,
and deleted items that EC2 still lists."""

PART_TYPES = (VPC, *(kind for _, _, kind, _, _ in _PARTS), "AWS::EC2::FlowLog")
IMAGE_TYPES = ("AWS::EC2::Image", "AWS::EC2::Snapshot")
