"""AWS::IAM resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    Provider,
    ResourceRequest,
    ignoring,
    removed_items,
)
from tritonstack_local.cloudformation.providers.values import text


class PolicyProvider(Provider):
    """Identifier: a generated name; roles refer to the policy by its own name."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Attach the policy to every role."""
        for role in _roles(request):
            self.attach(request, physical_id, role)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Detach the policy from removed roles, or from all if its name changes."""
        renamed = request.value("PolicyName") != previous.value("PolicyName")
        self.detach_all(previous, physical_id, keep=[] if renamed else _roles(request))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Detach the policy from every role."""
        self.detach_all(request, physical_id, keep=[])

    def attach(self, request: ResourceRequest, physical_id: str, role: str) -> None:
        """Attach the policy to a role."""
        document = request.api("PolicyName", "PolicyDocument")
        request.client("iam").put_role_policy(RoleName=role, **document)

    def detach(self, request: ResourceRequest, physical_id: str, role: str) -> None:
        """Detach the policy from a role."""
        request.client("iam").delete_role_policy(RoleName=role, **request.api("PolicyName"))

    def detach_all(self, request: ResourceRequest, physical_id: str, *, keep: list[str]) -> None:
        """Detach the policy from its roles, except some."""
        for role in _roles(request):
            if role not in keep:
                with ignoring("NoSuchEntity"):
                    self.detach(request, physical_id, role)


def _roles(request: ResourceRequest) -> list[str]:
    return list(request.value("Roles") or ())


class ManagedPolicyProvider(PolicyProvider):
    """Identifier: the policy's ARN."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Publish the new document as the only version, and detach from removed roles."""
        if request.properties["PolicyDocument"] != previous.properties["PolicyDocument"]:
            request.client("iam").create_policy_version(
                PolicyArn=physical_id, **request.api("PolicyDocument"), SetAsDefault=True
            )
            self._drop_old_versions(request, physical_id)
        self.detach_all(previous, physical_id, keep=_roles(request))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Detach the policy everywhere and delete it."""
        with ignoring("NoSuchEntity"):
            self.detach_all(request, physical_id, keep=[])
            self._drop_old_versions(request, physical_id)
            request.client("iam").delete_policy(PolicyArn=physical_id)

    def attach(self, request: ResourceRequest, physical_id: str, role: str) -> None:
        """Attach the policy to a role."""
        request.client("iam").attach_role_policy(RoleName=role, PolicyArn=physical_id)

    def detach(self, request: ResourceRequest, physical_id: str, role: str) -> None:
        """Detach the policy from a role."""
        request.client("iam").detach_role_policy(RoleName=role, PolicyArn=physical_id)

    def _drop_old_versions(self, request: ResourceRequest, arn: str) -> None:
        iam = request.client("iam")
        for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])


class OpenIdConnectProvider(Provider):
    """Identifier: the provider's ARN, also returned by `Ref`. One provider per URL."""

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the arguments of a new provider."""
        return {"ClientIDList": request.properties.get("ClientIdList", []), "ThumbprintList": []}

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change audiences; remove tags."""
        super().update(request, physical_id, previous)
        iam, target = request.client("iam"), self.target(request, physical_id)
        for audience in removed_items(previous, request, "ClientIdList"):
            iam.add_client_id_to_open_id_connect_provider(ClientID=audience, **target)
        for audience in removed_items(request, previous, "ClientIdList"):
            iam.remove_client_id_from_open_id_connect_provider(ClientID=audience, **target)


class RoleProvider(Provider):
    """Identifier: the role's name. Deletion detaches all policies first, as in CloudFormation."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set description, boundary, policies and tags."""
        super().settle(request, physical_id)
        iam = request.client("iam")
        iam.update_role(
            RoleName=physical_id,
            Description=request.properties.get("Description", ""),
            MaxSessionDuration=int(request.properties.get("MaxSessionDuration", 3600)),
        )
        for arn in request.properties.get("ManagedPolicyArns", []):
            iam.attach_role_policy(RoleName=physical_id, PolicyArn=arn)
        for name, document in _policies(request).items():
            iam.put_role_policy(RoleName=physical_id, PolicyName=name, PolicyDocument=text(document))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Set the trust policy; remove boundary, policies, and tags that the template no longer has."""
        super().update(request, physical_id, previous)
        iam, trust = request.client("iam"), request.value("AssumeRolePolicyDocument")
        iam.update_assume_role_policy(RoleName=physical_id, PolicyDocument=trust)
        for arn in removed_items(request, previous, "ManagedPolicyArns"):
            iam.detach_role_policy(RoleName=physical_id, PolicyArn=arn)
        for name in _policies(previous).keys() - _policies(request).keys():
            iam.delete_role_policy(RoleName=physical_id, PolicyName=name)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Detach all policies and delete the role."""
        iam = request.client("iam")
        with ignoring("NoSuchEntity"):
            for attached in iam.list_attached_role_policies(RoleName=physical_id)["AttachedPolicies"]:
                iam.detach_role_policy(RoleName=physical_id, PolicyArn=attached["PolicyArn"])
            for name in iam.list_role_policies(RoleName=physical_id)["PolicyNames"]:
                iam.delete_role_policy(RoleName=physical_id, PolicyName=name)
            iam.delete_role(RoleName=physical_id)

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return ARN and unique id."""
        role = request.client("iam").get_role(RoleName=physical_id)["Role"]
        return {"Arn": role["Arn"], "RoleId": role["RoleId"]}


def _policies(request: ResourceRequest) -> dict[str, Any]:
    policies = request.properties.get("Policies", [])
    return {policy["PolicyName"]: policy["PolicyDocument"] for policy in policies}


CLASSES: Mapping[str, type[Provider]] = {
    "AWS::IAM::ManagedPolicy": ManagedPolicyProvider,
    "AWS::IAM::OIDCProvider": OpenIdConnectProvider,
    "AWS::IAM::Policy": PolicyProvider,
    "AWS::IAM::Role": RoleProvider,
}
