"""AWS::EC2 security groups and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    reject_change,
)
from tritonstack_local.cloudformation.providers.ec2_network import NO_NETWORK, TAGS, drop_tags, put_tags

INGRESS_MEMBERS = {
    "CidrIp": None,
    "CidrIpv6": None,
    "Description": None,
    "FromPort": None,
    "IpProtocol": None,
    "SourcePrefixListId": None,
    "SourceSecurityGroupId": None,
    "ToPort": None,
}
EGRESS_MEMBERS = {name.replace("Source", "Destination"): None for name in INGRESS_MEMBERS}
# The default rule of a new group, kept until the template sets another.
EVERYTHING_OUT = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}

_RANGES = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "PrefixListId": ("PrefixListIds", "PrefixListId"),
    "SecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's rule in the API's format."""
    plain = {key.removeprefix("Source").removeprefix("Destination"): value for key, value in rule.items()}
    made: dict[str, Any] = {"IpProtocol": str(plain["IpProtocol"])}
    for port in ("FromPort", "ToPort"):
        if port in plain:
            made[port] = int(plain[port])
    about = {"Description": plain["Description"]} if "Description" in plain else {}
    for name, (ranges, member) in _RANGES.items():
        if name in plain:
            made[ranges] = [{member: plain[name], **about}]
    return made


Rules = list[Mapping[str, Any]]


class SecurityGroupProvider(Provider):
    """Identifier: the group's id."""

    type_name = "AWS::EC2::SecurityGroup"
    kept_only = NO_NETWORK
    name_property = "GroupName"
    properties: ClassVar = {
        "GroupDescription": Property(create_only=True, required=True),
        "GroupName": Property(create_only=True),
        "SecurityGroupEgress": Property(members=EGRESS_MEMBERS),
        "SecurityGroupIngress": Property(members=INGRESS_MEMBERS),
        "Tags": TAGS,
        "VpcId": Property(create_only=True),
    }
    attribute_names = frozenset({"GroupId", "Id"})

    def create(self, request: ResourceRequest) -> str:
        """Create the group."""
        ec2 = request.client("ec2")
        made = ec2.create_security_group(
            GroupName=request.name("GroupName", max_length=255),
            Description=request.properties["GroupDescription"],
            **request.api("VpcId"),
        )
        group = str(made["GroupId"])
        if EVERYTHING_OUT not in _egress(request):
            ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[permission(EVERYTHING_OUT)])
        return group

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Add missing rules, and set the tags."""
        ec2 = request.client("ec2")
        for authorize, rules in (
            (ec2.authorize_security_group_ingress, _ingress(request)),
            (ec2.authorize_security_group_egress, _egress(request)),
        ):
            for rule in rules:
                with ignoring("InvalidPermission.Duplicate"):
                    authorize(GroupId=physical_id, IpPermissions=[permission(rule)])
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove rules and tags."""
        ec2 = request.client("ec2")
        for revoke, before, after in (
            (ec2.revoke_security_group_ingress, _ingress(previous), _ingress(request)),
            (ec2.revoke_security_group_egress, _egress(previous), _egress(request)),
        ):
            for rule in before:
                if rule not in after:
                    revoke(GroupId=physical_id, IpPermissions=[permission(rule)])
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the group."""
        with ignoring("InvalidGroup.NotFound"):
            request.client("ec2").delete_security_group(GroupId=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id under both names."""
        return {"GroupId": physical_id, "Id": physical_id}


def _ingress(request: ResourceRequest) -> Rules:
    return list(request.properties.get("SecurityGroupIngress", []))


def _egress(request: ResourceRequest) -> Rules:
    return list(request.properties.get("SecurityGroupEgress", [EVERYTHING_OUT]))


_GONE = ("InvalidGroup.NotFound", "InvalidPermission.NotFound", "InvalidSecurityGroupRuleId.NotFound")


class SecurityGroupIngressProvider(Provider):
    """Identifier: the rule's id. Rules cannot change."""

    type_name = "AWS::EC2::SecurityGroupIngress"
    kept_only = NO_NETWORK
    direction: ClassVar = "ingress"
    properties: ClassVar = {
        "CidrIp": Property(create_only=True),
        "CidrIpv6": Property(create_only=True),
        "Description": Property(),
        "FromPort": Property(create_only=True),
        "GroupId": Property(create_only=True),
        "IpProtocol": Property(create_only=True, required=True),
        "SourcePrefixListId": Property(create_only=True),
        "SourceSecurityGroupId": Property(create_only=True),
        "ToPort": Property(create_only=True),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Add the rule."""
        made = self._call(request, "authorize_security_group", IpPermissions=[_permission(request)])
        return str(made["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Reject a changed description: moto cannot change it for rules that name a group."""
        reject_change(request, previous, "Description")

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the rule."""
        with ignoring(*_GONE):
            self._call(request, "revoke_security_group", SecurityGroupRuleIds=[physical_id])

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}

    def _call(self, request: ResourceRequest, action: str, **arguments: Any) -> dict[str, Any]:
        call = getattr(request.client("ec2"), f"{action}_{self.direction}")
        answer: dict[str, Any] = call(GroupId=request.properties["GroupId"], **arguments)
        return answer


def _permission(request: ResourceRequest) -> dict[str, Any]:
    return permission({name: value for name, value in request.properties.items() if name != "GroupId"})


class SecurityGroupEgressProvider(SecurityGroupIngressProvider):
    """A rule for the other direction."""

    type_name = "AWS::EC2::SecurityGroupEgress"
    kept_only = NO_NETWORK
    direction: ClassVar = "egress"
    properties: ClassVar = {
        "CidrIp": Property(create_only=True),
        "CidrIpv6": Property(create_only=True),
        "Description": Property(),
        "DestinationPrefixListId": Property(create_only=True),
        "DestinationSecurityGroupId": Property(create_only=True),
        "FromPort": Property(create_only=True),
        "GroupId": Property(create_only=True, required=True),
        "IpProtocol": Property(create_only=True, required=True),
        "ToPort": Property(create_only=True),
    }
