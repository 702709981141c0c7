"""AWS::EC2 networks, and security groups with their rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Provider,
    ProviderError,
    ResourceRequest,
    Tagging,
    ignoring,
    removed_items,
)
from tritonstack_local.cloudformation.providers.values import text

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


class VpcProvider(Ec2Provider):
    """VPCs. Deletion also deletes the parts that EC2 created with one."""

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id, addresses, and default security group."""
        of_vpc = [{"Name": "vpc-id", "Values": [physical_id]}, {"Name": "group-name", "Values": ["default"]}]
        (group,) = request.client("ec2").describe_security_groups(Filters=of_vpc)["SecurityGroups"]
        return {**super().read(request, physical_id), "DefaultSecurityGroup": group["GroupId"]}


class SubnetProvider(Ec2Provider):
    """Subnets."""

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return id and zone."""
        (subnet,) = request.client("ec2").describe_subnets(SubnetIds=[physical_id])["Subnets"]
        return {"AvailabilityZone": subnet["AvailabilityZone"], "SubnetId": physical_id}


# The default policy of an endpoint.
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


CLASSES: Mapping[str, type[Provider]] = {
    "AWS::EC2::FlowLog": FlowLogProvider,
    "AWS::EC2::RouteTable": Ec2Provider,
    "AWS::EC2::SecurityGroup": SecurityGroupProvider,
    "AWS::EC2::SecurityGroupIngress": SecurityGroupIngressProvider,
    "AWS::EC2::Subnet": SubnetProvider,
    "AWS::EC2::SubnetRouteTableAssociation": Ec2Provider,  # without one, the VPC's main table applies
    "AWS::EC2::VPC": VpcProvider,
    "AWS::EC2::VPCEndpoint": VpcEndpointProvider,
}
