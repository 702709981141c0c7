"""AWS::EC2 security groups and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Creation,
    Deletion,
    Name,
    Property,
    ResourceRequest,
    alike,
    ignoring,
)
from tritonstack_local.cloudformation.providers.ec2_network import TAGS, Ec2Provider

_INGRESS_MEMBERS = dict.fromkeys(
    (
        *("CidrIp", "CidrIpv6", "Description", "FromPort", "IpProtocol", "ToPort"),
        *("SourcePrefixListId", "SourceSecurityGroupId"),
    )
)
_EGRESS_MEMBERS = {name.replace("Source", "Destination"): None for name in _INGRESS_MEMBERS}
# The default rule of a new group, kept until the template sets another.
_EVERYTHING_OUT = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}
_RANGES = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "PrefixListId": ("PrefixListIds", "PrefixListId"),
    "SecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}


def _permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's rule in the API's format."""
    plain = {key.removeprefix("Source").removeprefix("Destination"): value for key, value in rule.items()}
    ports: dict[str, Any] = {port: int(plain[port]) for port in ("FromPort", "ToPort") if port in plain}
    about = {"Description": plain["Description"]} if "Description" in plain else {}
    ranges = {
        field: [{member: plain[name], **about}] for name, (field, member) in _RANGES.items() if name in plain
    }
    return {"IpProtocol": str(plain["IpProtocol"]), **ports, **ranges}


class SecurityGroupProvider(Ec2Provider):
    """Security groups with the rules that are listed in the group itself."""

    def create(self, request: ResourceRequest) -> str:
        """Create the group; by default, everything may go out."""
        group = super().create(request)
        if _EVERYTHING_OUT not in _rules(request)["egress"]:
            self._call(request, group, "revoke_security_group_egress", _EVERYTHING_OUT)
        return group

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the arguments of a new group."""
        return {"Description": request.properties["GroupDescription"], **request.api("VpcId")}

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Add missing rules, and set the tags."""
        for direction, rules in _rules(request).items():
            for rule in rules:
                with ignoring("InvalidPermission.Duplicate"):
                    self._call(request, physical_id, f"authorize_security_group_{direction}", rule)
        super().settle(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove rules and tags."""
        super().update(request, physical_id, previous)
        after = _rules(request)
        for direction, rules in _rules(previous).items():
            for rule in rules:
                if rule not in after[direction]:
                    self._call(request, physical_id, f"revoke_security_group_{direction}", rule)

    def _call(self, request: ResourceRequest, group: str, operation: str, rule: Mapping[str, Any]) -> None:
        self.call(request, operation, GroupId=group, IpPermissions=[_permission(rule)])


def _rules(request: ResourceRequest) -> dict[str, list[Mapping[str, Any]]]:
    return {
        "ingress": request.properties.get("SecurityGroupIngress", []),
        "egress": request.properties.get("SecurityGroupEgress", [_EVERYTHING_OUT]),
    }


_GROUP = SecurityGroupProvider(
    type_name="AWS::EC2::SecurityGroup",
    identifier="GroupId",
    name=Name("GroupName", 255, argument="GroupName"),
    properties={
        **alike("GroupDescription", create_only=True, required=True),
        **alike("GroupName VpcId", create_only=True),
        "SecurityGroupEgress": Property(members=_EGRESS_MEMBERS),
        "SecurityGroupIngress": Property(members=_INGRESS_MEMBERS),
        "Tags": TAGS,
    },
    creation=Creation("create_security_group", "GroupId"),
    deletion=Deletion("delete_security_group", "InvalidGroup.NotFound"),
    attributes={"GroupId": "{id}", "Id": "{id}"},
)


class SecurityGroupIngressProvider(Ec2Provider):
    """Rules of their own. They cannot change: moto cannot change descriptions of rules that name a group."""

    def create(self, request: ResourceRequest) -> str:
        """Add the rule."""
        rule = {name: value for name, value in request.properties.items() if name != "GroupId"}
        answer = request.client("ec2").authorize_security_group_ingress(
            **request.api("GroupId"), IpPermissions=[_permission(rule)]
        )
        return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the rule."""
        with ignoring("InvalidGroup.NotFound InvalidPermission.NotFound InvalidSecurityGroupRuleId.NotFound"):
            request.client("ec2").revoke_security_group_ingress(
                **request.api("GroupId"), SecurityGroupRuleIds=[physical_id]
            )


_INGRESS = SecurityGroupIngressProvider(
    type_name="AWS::EC2::SecurityGroupIngress",
    properties={
        **alike("CidrIp CidrIpv6 FromPort ToPort SourcePrefixListId SourceSecurityGroupId", create_only=True),
        **alike("GroupId IpProtocol", create_only=True, required=True),
        "Description": Property(),
    },
    unchangeable=("Description",),
    attributes={"Id": "{id}"},
)

TYPES = (_GROUP, _INGRESS)
