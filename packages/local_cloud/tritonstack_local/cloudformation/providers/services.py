"""Types whose resources take more than the calls in resource_types.yaml; SageMaker's are in sagemaker.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Provider,
    ProviderError,
    ResourceRequest,
    Tagging,
    ignoring,
    small,
)
from tritonstack_local.cloudformation.providers.values import shape_named, text, to_api
from tritonstack_local.codebuild.unsupported import project_rejection


class _ScalableTarget(Provider):
    def create(self, request: ResourceRequest) -> str:
        return "|".join(request.properties[name] for name in self.keys)

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        return super().arguments(request) | ({"Tags": request.tags} if request.tags else {})

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        self.call(request, "put_scheduled_action", **self.target(request, ""), **item)

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        name = {"ScheduledActionName": item["ScheduledActionName"]}
        self.call(request, "delete_scheduled_action", **self.target(request, ""), **name)

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        """Remove tags; they belong to an ARN that only Application Auto Scaling knows."""
        named = request.api("ServiceNamespace", "ScalableDimension")
        ids = [request.properties["ResourceId"]]
        targets = self.call(request, "describe_scalable_targets", **named, ResourceIds=ids)
        for target in targets["ScalableTargets"]:
            self.call(request, "untag_resource", ResourceARN=target["ScalableTargetARN"], TagKeys=keys)


class _ScalingPolicy(Provider):
    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        resource, dimension, namespace = request.properties["ScalingTargetId"].split("|")
        target = {"ResourceId": resource, "ScalableDimension": dimension, "ServiceNamespace": namespace}
        return target | request.api("PolicyName")

    def create(self, request: ResourceRequest) -> str:
        arguments = self.target(request, "") | self.arguments(request)
        return str(self.call(request, self.update_operation, **arguments)["PolicyARN"])


class _Project(Provider):
    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what CodeBuild would reject, before any resource is created."""
        yield from super().violations(logical_id, properties)
        fields = {
            small(name): to_api(value, shape_named(f"codebuild:CreateProject.{small(name)}"))
            for name, value in properties.items()
            if name in self.properties
        }
        if (rejection := project_rejection(fields)) is not None:
            yield f"{logical_id}: {rejection}"


class _Rule(Provider):
    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        answer = self.call(request, "put_targets", Rule=physical_id, Targets=[item])
        for rejected in answer["FailedEntries"]:
            raise ProviderError(f"target {rejected['TargetId']}: {rejected['ErrorMessage']}")

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        self.call(request, "remove_targets", Rule=physical_id, Ids=[item["Id"]])


class _Bucket(Provider):
    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the region, which us-east-1 does not accept."""
        region = request.stack.region
        place = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        return {} if region == "us-east-1" else place


_OWNER_ACTIONS = (
    "GetTopicAttributes SetTopicAttributes AddPermission RemovePermission DeleteTopic Subscribe "
    "ListSubscriptionsByTopic Publish"
)


class _TopicPolicy(Provider):
    """The policy of every topic of `Topics`; without it, a topic has the default policy."""

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        self._set_policy(request, item, request.properties["PolicyDocument"])

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        statement = {
            "Sid": "__default_statement_ID",
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": [f"SNS:{action}" for action in _OWNER_ACTIONS.split()],
            "Resource": item,
            "Condition": {"StringEquals": {"AWS:SourceOwner": request.stack.account}},
        }
        policy = {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}
        self._set_policy(request, item, policy)

    def _set_policy(self, request: ResourceRequest, topic: str, policy: object) -> None:
        document = {"AttributeName": "Policy", "AttributeValue": json.dumps(policy)}
        self.call(request, "set_topic_attributes", TopicArn=topic, **document)


class _Policy(Provider):
    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        document = request.api("PolicyName", "PolicyDocument")
        self.call(request, "put_role_policy", RoleName=item, **document)

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        with ignoring("NoSuchEntity"):
            self.call(request, "delete_role_policy", RoleName=item, **request.api("PolicyName"))


class _ManagedPolicy(Provider):
    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Publish the new document as the only version, and detach from removed roles."""
        super().update(request, physical_id, previous)
        if request.value("PolicyDocument") == previous.value("PolicyDocument"):
            return
        named, document = self.target(request, physical_id), request.api("PolicyDocument")
        self.call(request, "create_policy_version", **named, **document, SetAsDefault=True)
        for version in self.call(request, "list_policy_versions", **named)["Versions"]:
            if not version["IsDefaultVersion"]:
                self.call(request, "delete_policy_version", **named, VersionId=version["VersionId"])

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        self.call(request, "attach_role_policy", RoleName=item, PolicyArn=physical_id)

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        with ignoring("NoSuchEntity"):
            self.call(request, "detach_role_policy", RoleName=item, PolicyArn=physical_id)


class _OpenIdConnect(Provider):
    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        return {"ThumbprintList": []}

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        named = self.target(request, physical_id)
        self.call(request, "add_client_id_to_open_id_connect_provider", ClientID=item, **named)

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        named = self.target(request, physical_id)
        self.call(request, "remove_client_id_from_open_id_connect_provider", ClientID=item, **named)


class _Role(Provider):
    """A role; its items are ARNs of managed policies, and inline policies."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        super().update(request, physical_id, previous)
        trust = request.value("AssumeRolePolicyDocument")
        self.call(request, "update_assume_role_policy", RoleName=physical_id, PolicyDocument=trust)
        self.call(
            request,
            "update_role",
            RoleName=physical_id,
            Description=request.properties.get("Description", ""),
            MaxSessionDuration=int(request.properties.get("MaxSessionDuration", 3600)),
        )

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        if isinstance(item, str):
            self.call(request, "attach_role_policy", RoleName=physical_id, PolicyArn=item)
        else:
            document = {**item, "PolicyDocument": text(item["PolicyDocument"])}
            self.call(request, "put_role_policy", RoleName=physical_id, **document)

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        if isinstance(item, str):
            self.call(request, "detach_role_policy", RoleName=physical_id, PolicyArn=item)
        else:
            name = item["PolicyName"]
            self.call(request, "delete_role_policy", RoleName=physical_id, PolicyName=name)


_TAGGING = Tagging("create_tags", "delete_tags", {})  # with other arguments: see _Ec2


@dataclass(frozen=True, kw_only=True)
class _Ec2(Provider):
    """A part of a network."""

    kept_only: str = "Stored and returned; models have no network."
    tagging: Tagging | None = _TAGGING

    def add_tags(self, request: ResourceRequest, physical_id: str) -> None:
        self.call(request, "create_tags", Resources=[physical_id], Tags=request.value("Tags"))

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        tags = [{"Key": key} for key in keys]
        self.call(request, "delete_tags", Resources=[physical_id], Tags=tags)


# The default policy of an endpoint.
_EVERYTHING = text(
    {
        "Version": "2008-10-17",
        "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}],
    }
)


class _VpcEndpoint(_Ec2):
    """VPC endpoints; gateways by default."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        return {"VpcEndpointType": "Gateway", "PolicyDocument": _EVERYTHING, **super().arguments(request)}

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        super().update(request, physical_id, previous)
        changes: dict[str, list[str]] = {}
        for name in ("RouteTableIds", "SecurityGroupIds", "SubnetIds"):
            before, after = (item.properties.get(name, []) for item in (previous, request))
            changes[f"Add{name}"] = [each for each in after if each not in before]
            changes[f"Remove{name}"] = [each for each in before if each not in after]
        policy = request.value("PolicyDocument") or _EVERYTHING
        changes = {name: ids for name, ids in changes.items() if ids}
        named = self.target(request, physical_id)
        self.call(request, "modify_vpc_endpoint", **named, PolicyDocument=policy, **changes)


class _FlowLog(_Ec2):
    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        arguments = super().arguments(request)
        return {"ResourceIds": [arguments.pop("ResourceId")], **arguments}


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


class _SecurityGroup(_Ec2):
    """A security group; its items are the rules for outgoing connections."""

    def create(self, request: ResourceRequest) -> str:
        group = super().create(request)
        if _EVERYTHING_OUT not in self.items_of(request):
            self.remove_item(request, group, _EVERYTHING_OUT)
        return group

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        return {"Description": request.properties["GroupDescription"], **request.api("VpcId")}

    def items_of(self, request: ResourceRequest) -> list[Any]:
        return list(request.properties.get("SecurityGroupEgress", [_EVERYTHING_OUT]))

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        with ignoring("InvalidPermission.Duplicate"):
            permissions = [_permission(item)]
            self.call(
                request, "authorize_security_group_egress", GroupId=physical_id, IpPermissions=permissions
            )

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        permissions = [_permission(item)]
        self.call(request, "revoke_security_group_egress", GroupId=physical_id, IpPermissions=permissions)


class _SecurityGroupIngress(_Ec2):
    """Rules of their own. They cannot change: moto cannot change descriptions of rules that name a group."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        rule = {name: value for name, value in request.properties.items() if name != "GroupId"}
        return {**request.api("GroupId"), "IpPermissions": [_permission(rule)]}

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        return {**request.api("GroupId"), "SecurityGroupRuleIds": [physical_id]}


CLASSES: Mapping[str, type[Provider]] = {
    "AWS::ApplicationAutoScaling::ScalableTarget": _ScalableTarget,
    "AWS::ApplicationAutoScaling::ScalingPolicy": _ScalingPolicy,
    "AWS::CodeBuild::Project": _Project,
    "AWS::EC2::FlowLog": _FlowLog,
    "AWS::EC2::RouteTable": _Ec2,
    "AWS::EC2::SecurityGroup": _SecurityGroup,
    "AWS::EC2::SecurityGroupIngress": _SecurityGroupIngress,
    "AWS::EC2::Subnet": _Ec2,
    "AWS::EC2::SubnetRouteTableAssociation": _Ec2,  # without one, the VPC's main table applies
    "AWS::EC2::VPC": _Ec2,
    "AWS::EC2::VPCEndpoint": _VpcEndpoint,
    "AWS::Events::Rule": _Rule,
    "AWS::IAM::ManagedPolicy": _ManagedPolicy,
    "AWS::IAM::OIDCProvider": _OpenIdConnect,
    "AWS::IAM::Policy": _Policy,
    "AWS::IAM::Role": _Role,
    "AWS::S3::Bucket": _Bucket,
    "AWS::SNS::TopicPolicy": _TopicPolicy,
}
