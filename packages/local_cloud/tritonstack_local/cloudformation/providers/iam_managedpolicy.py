"""AWS::IAM::ManagedPolicy."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    ignoring,
)

_HOLDERS = {"Roles": "Role", "Users": "User", "Groups": "Group"}


class ManagedPolicy(Provider):
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
        """Make the policy."""
        made = request.client("iam").create_policy(
            PolicyName=request.name("ManagedPolicyName", max_length=128),
            PolicyDocument=json.dumps(request.properties["PolicyDocument"]),
            **request.api("Description", "Path"),
        )
        return str(made["Policy"]["Arn"])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Attach the policy to every holder."""
        for kind, holder in _holders(request):
            attach = getattr(request.client("iam"), f"attach_{kind.lower()}_policy")
            attach(**{f"{kind}Name": holder}, PolicyArn=physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Publish the new document as the one version, and detach from holders that lose the policy."""
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
