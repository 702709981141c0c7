"""AWS::IAM::Role."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    ignoring,
)


class Role(Provider):
    """Identifier: the role's name. Deleting takes off every policy first, as CloudFormation does."""

    type_name = "AWS::IAM::Role"
    kept_only = NOT_ENFORCED
    name_property = "RoleName"
    properties: ClassVar = {
        "AssumeRolePolicyDocument": Property(required=True),
        "Description": Property(),
        "ManagedPolicyArns": Property(),
        "MaxSessionDuration": Property(),
        "Path": Property(create_only=True),
        "PermissionsBoundary": Property(),
        "Policies": Property(members={"PolicyName": None, "PolicyDocument": None}),
        "RoleName": Property(create_only=True),
        "Tags": Property(shape="iam:CreateRole.Tags"),
    }
    attribute_names = frozenset({"Arn", "RoleId"})

    def create(self, request: ResourceRequest) -> str:
        """Make the role."""
        name = request.name("RoleName", max_length=64)
        request.client("iam").create_role(
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(request.properties["AssumeRolePolicyDocument"]),
            **request.api("Path"),
        )
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set description, boundary, policies and tags."""
        iam = request.client("iam")
        iam.update_role(
            RoleName=physical_id,
            Description=request.properties.get("Description", ""),
            MaxSessionDuration=int(request.properties.get("MaxSessionDuration", 3600)),
        )
        if "PermissionsBoundary" in request.properties:
            iam.put_role_permissions_boundary(RoleName=physical_id, **request.api("PermissionsBoundary"))
        for arn in request.properties.get("ManagedPolicyArns", []):
            iam.attach_role_policy(RoleName=physical_id, PolicyArn=arn)
        for policy in request.properties.get("Policies", []):
            document = json.dumps(policy["PolicyDocument"])
            iam.put_role_policy(
                RoleName=physical_id, PolicyName=policy["PolicyName"], PolicyDocument=document
            )
        if request.properties.get("Tags"):
            iam.tag_role(RoleName=physical_id, Tags=request.value("Tags"))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Set the trust anew; take back boundary, policies and tags that the template no longer has."""
        iam = request.client("iam")
        trust = json.dumps(request.properties["AssumeRolePolicyDocument"])
        iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=trust)
        if "PermissionsBoundary" in previous.properties and "PermissionsBoundary" not in request.properties:
            iam.delete_role_permissions_boundary(RoleName=physical_id)
        for arn in _gone(request, previous, "ManagedPolicyArns", None):
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=arn)
        for name in _gone(request, previous, "Policies", "PolicyName"):
            iam.delete_role_policy(RoleName=physical_id, PolicyName=name)
        tags = _gone(request, previous, "Tags", "Key")
        if tags:
            iam.untag_role(RoleName=physical_id, TagKeys=tags)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Take off every policy and delete the role."""
        iam = request.client("iam")
        with ignoring("NoSuchEntity"):
            for attached in iam.list_attached_role_policies(RoleName=physical_id)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=physical_id, PolicyArn=attached["PolicyArn"])
            for name in iam.list_role_policies(RoleName=physical_id)["PolicyNames"]:
                iam.delete_role_policy(RoleName=physical_id, PolicyName=name)
            iam.delete_role(RoleName=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and unique id."""
        role = request.client("iam").get_role(RoleName=physical_id)["Role"]
        return {"Arn": role["Arn"], "RoleId": role["RoleId"]}


def _gone(request: ResourceRequest, previous: ResourceRequest, name: str, key: str | None) -> list[str]:
    kept = [item[key] if key else item for item in request.properties.get(name, [])]
    before = [item[key] if key else item for item in previous.properties.get(name, [])]
    return [item for item in before if item not in kept]
