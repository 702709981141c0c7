"""AWS::EC2::SecurityGroupIngress."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    refuse_change,
)
from tritonstack_local.cloudformation.providers.ec2_common import NO_NETWORK
from tritonstack_local.cloudformation.providers.ec2_rules import permission

_GONE = ("InvalidGroup.NotFound", "InvalidPermission.NotFound", "InvalidSecurityGroupRuleId.NotFound")


class SecurityGroupIngress(Provider):
    """Identifier: the rule's id. A rule that stands does not change."""

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
        """Refuse another description: moto cannot describe a rule that names a group anew."""
        refuse_change(request, previous, "Description")

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Take the rule back."""
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
