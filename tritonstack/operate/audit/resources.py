"""Records of listed resources and the name patterns to search for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonstack.operate.shared.aws import Cloud, pages

STACK_TAG = "aws:cloudformation:stack-name"
"""The tag that CloudFormation sets on resources of services that support it."""

STACK_ID_TAG = "aws:cloudformation:stack-id"
"""The tag with the stack's ARN, and so its region."""

Key = tuple[str, str]
"""A type and an id."""


@dataclass(frozen=True)
class AwsResource:
    """One resource, as a service lists it."""

    type: str
    """The CloudFormation type, or a similar name if there is none."""
    id: str
    """The physical id in CloudFormation."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    within: Key | None = None
    """The parent resource, which it is created and deleted with."""
    pending: bool = False
    """Whether its deletion is scheduled: it is unusable and cannot be deleted faster."""

    @property
    def key(self) -> Key:
        """Return the type and id."""
        return self.type, self.id


@dataclass(frozen=True)
class AuditScope:
    """The names and tags to search for in an account."""

    base: str
    """tritonstack-dev for one environment, tritonstack for all."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Tags of all its resources, for services that support tags."""
    whole: bool = False
    """Whether all environments whose names begin with the base are in scope."""

    def names(self, text: str, before: str = "") -> bool:
        """Return whether a name has the base as a whole word, after a known prefix."""
        if not text.startswith(before):
            return False
        rest = text.removeprefix(before)
        return rest == self.base or (rest.startswith(self.base) and rest[len(self.base)] in "-/_")

    def tagged(self, tags: Mapping[str, str]) -> bool:
        """Return whether tags are in scope."""
        matches = bool(self.tags) and self.tags.items() <= tags.items()
        return matches or any(self.names(tags.get(key, "")) for key in ("Name", STACK_TAG))


@dataclass(frozen=True)
class UnreadableResource:
    """A listed resource that cannot be described, so its owner is unknown."""

    type: str
    id: str


Find = Callable[[Cloud, AuditScope], Iterator[AwsResource | UnreadableResource]]


@dataclass(frozen=True)
class Listing:
    """One listing of one service."""

    service: str
    """The boto3 service name."""
    types: tuple[str, ...]
    """The resource types that it finds."""
    find: Find


def tags_of(item: Iterable[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
    """Convert AWS tags to a mapping."""
    return {tag[key]: tag[value] for tag in item}


def created_in_other_region(tags: Mapping[str, str], region: str) -> bool:
    """Return whether another region's stack created a global resource."""
    arn = tags.get(STACK_ID_TAG, "")
    return arn.startswith("arn:") and arn.split(":")[3] != region


def snake_case(name: str) -> str:
    """Return the boto3 spelling of a name such as EndpointConfig."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def scalable_target_id(item: Mapping[str, Any]) -> str:
    """Return the physical id in CloudFormation of a scalable target, or of the target of an item."""
    return "|".join((item["ResourceId"], item["ScalableDimension"], item["ServiceNamespace"]))


# EC2 uses ids instead of names: tags, group names, and the network show the owner. A network's default
# resources (main route table, default group) are ignored.


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
