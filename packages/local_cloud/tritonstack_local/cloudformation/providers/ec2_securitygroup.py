"""AWS::EC2::SecurityGroup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK, TAGS, drop_tags, put_tags
from tritonstack_local.cloudformation.providers.ec2_rules import (
    EGRESS_MEMBERS,
    EVERYTHING_OUT,
    INGRESS_MEMBERS,
    permission,
)

Rules = list[Mapping[str, Any]]


class SecurityGroup(Provider):
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
        """Make the group."""
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
        """Add the rules that it does not have, and set the tags."""
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
        """Take back rules and tags."""
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
        """Return the id, by both of its names."""
        return {"GroupId": physical_id, "Id": physical_id}


def _ingress(request: ResourceRequest) -> Rules:
    return list(request.properties.get("SecurityGroupIngress", []))


def _egress(request: ResourceRequest) -> Rules:
    return list(request.properties.get("SecurityGroupEgress", [EVERYTHING_OUT]))
