"""AWS::IAM resources."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    generated_name,
    ignoring,
)

_HOLDERS = {"Roles": "Role", "Users": "User", "Groups": "Group"}


class ManagedPolicyProvider(Provider):
    """Identifier: the policy's ARN."""

    type_name = "AWS::IAM::ManagedPolicy"
    kept_only = NOT_ENFORCED
    name_property = "ManagedPolicyName"
    properties: ClassVar = {
        "Description": Property(create_only=True),
        "Groups": Property(),
        "ManagedPolicyName": Property(create_only=True),
        "Path": Property(create_only=True),
        "PolicyDocument": Property(required=True),
        "Roles": Property(),
        "Users": Property(),
    }
    attribute_names = frozenset({"PolicyArn"})

    def create(self, request: ResourceRequest) -> str:
        """Create the policy."""
        made = request.client("iam").create_policy(
            PolicyName=request.name("ManagedPolicyName", max_length=128),
            PolicyDocument=json.dumps(request.properties["PolicyDocument"]),
            **request.api("Description", "Path"),
        )
        return str(made["Policy"]["Arn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Attach the policy to every principal."""
        for kind, holder in _holders(request):
            attach = getattr(request.client("iam"), f"attach_{kind.lower()}_policy")
            attach(**{f"{kind}Name": holder}, PolicyArn=physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Publish the new document as the only version, and detach from removed principals."""
        iam = request.client("iam")
        if request.properties["PolicyDocument"] != previous.properties["PolicyDocument"]:
            document = json.dumps(request.properties["PolicyDocument"])
            iam.create_policy_version(PolicyArn=physical_id, PolicyDocument=document, SetAsDefault=True)
            _drop_old_versions(request, physical_id)
        kept = _holders(request)
        _detach(request, physical_id, [holder for holder in _holders(previous) if holder not in kept])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Detach the policy everywhere and delete it."""
        with ignoring("NoSuchEntity"):
            _detach(request, physical_id, _holders(request))
            _drop_old_versions(request, physical_id)
            request.client("iam").delete_policy(PolicyArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the ARN."""
        return {"PolicyArn": physical_id}


def _holders(request: ResourceRequest) -> list[tuple[str, str]]:
    return [(kind, name) for prop, kind in _HOLDERS.items() for name in request.properties.get(prop, [])]


def _detach(request: ResourceRequest, arn: str, holders: list[tuple[str, str]]) -> None:
    for kind, holder in holders:
        with ignoring("NoSuchEntity"):
            detach = getattr(request.client("iam"), f"detach_{kind.lower()}_policy")
            detach(**{f"{kind}Name": holder}, PolicyArn=arn)


def _drop_old_versions(request: ResourceRequest, arn: str) -> None:
    iam = request.client("iam")
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


_NO_TOKENS = "Stored and returned; its keys cannot be fetched, and no token is accepted."


class OpenIdConnectProvider(Provider):
    """Identifier: the provider's ARN, also returned by `Ref`. One provider per URL."""

    type_name = "AWS::IAM::OIDCProvider"
    kept_only = _NO_TOKENS
    name_property = "Url"
    properties: ClassVar = {
        "ClientIdList": Property(),
        "Tags": Property(members={"Key": None, "Value": None}),
        "ThumbprintList": Property(),
        "Url": Property(create_only=True),
    }
    attribute_names = frozenset({"Arn"})

    def find(self, request: ResourceRequest) -> str | None:
        """Return the ARN of the provider with this URL if it exists."""
        arn = f"arn:aws:iam::{request.stack.account}:oidc-provider/{_host(request)}"
        listed = request.client("iam").list_open_id_connect_providers()["OpenIDConnectProviderList"]
        return arn if arn in {item["Arn"] for item in listed} else None

    def create(self, request: ResourceRequest) -> str:
        """Create the provider."""
        made = request.client("iam").create_open_id_connect_provider(
            Url=request.properties["Url"],
            ClientIDList=request.properties.get("ClientIdList", []),
            ThumbprintList=request.properties.get("ThumbprintList", []),
        )
        return str(made["OpenIDConnectProviderArn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        if request.properties.get("Tags"):
            request.client("iam").tag_open_id_connect_provider(
                OpenIDConnectProviderArn=physical_id, Tags=request.properties["Tags"]
            )

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change audiences and thumbprints; remove tags."""
        iam = request.client("iam")
        named = {"OpenIDConnectProviderArn": physical_id}
        wanted, before = (set(given.properties.get("ClientIdList", [])) for given in (request, previous))
        for audience in sorted(wanted - before):
            iam.add_client_id_to_open_id_connect_provider(ClientID=audience, **named)
        for audience in sorted(before - wanted):
            iam.remove_client_id_from_open_id_connect_provider(ClientID=audience, **named)
        thumbprints = request.properties.get("ThumbprintList", [])
        if thumbprints != previous.properties.get("ThumbprintList", []):
            iam.update_open_id_connect_provider_thumbprint(ThumbprintList=thumbprints, **named)
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            iam.untag_open_id_connect_provider(TagKeys=gone, **named)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the provider."""
        with ignoring("NoSuchEntity"):
            request.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        return {"Arn": physical_id}


def _host(request: ResourceRequest) -> str:
    return str(request.properties["Url"]).removeprefix("https://")


class PolicyProvider(Provider):
    """Identifier: a generated name; principals refer to the policy by its own name."""

    type_name = "AWS::IAM::Policy"
    kept_only = NOT_ENFORCED
    properties: ClassVar = {
        "Groups": Property(),
        "PolicyDocument": Property(required=True),
        "PolicyName": Property(required=True),
        "Roles": Property(),
        "Users": Property(),
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Return a name; `settle` attaches the policy."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Attach the policy to every principal."""
        iam = request.client("iam")
        document = json.dumps(request.properties["PolicyDocument"])
        for kind, holder in _holders(request):
            put = getattr(iam, f"put_{kind.lower()}_policy")
            put(
                **{f"{kind}Name": holder},
                PolicyName=request.properties["PolicyName"],
                PolicyDocument=document,
            )

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Detach the policy from removed principals, or from all if its name changes."""
        renamed = request.properties["PolicyName"] != previous.properties["PolicyName"]
        kept = [] if renamed else _holders(request)
        _detach_all(previous, [holder for holder in _holders(previous) if holder not in kept])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Detach the policy from every principal."""
        _detach_all(request, _holders(request))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the identifier."""
        return {"Id": physical_id}


def _detach_all(request: ResourceRequest, holders: list[tuple[str, str]]) -> None:
    iam = request.client("iam")
    for kind, holder in holders:
        with ignoring("NoSuchEntity"):
            delete = getattr(iam, f"delete_{kind.lower()}_policy")
            delete(**{f"{kind}Name": holder}, PolicyName=request.properties["PolicyName"])


class RoleProvider(Provider):
    """Identifier: the role's name. Deletion detaches all policies first, as in CloudFormation."""

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
        """Create the role."""
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
        """Set the trust policy; remove boundary, policies, and tags that the template no longer has."""
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
        """Detach all policies and delete the role."""
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
