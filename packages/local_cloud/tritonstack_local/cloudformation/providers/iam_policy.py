"""AWS::IAM::Policy: an inline policy, put on roles, users and groups."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.names import generated_name
from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ResourceRequest,
    ignoring,
)

_HOLDERS = {"Roles": "Role", "Users": "User", "Groups": "Group"}


class Policy(Provider):
    """Identifier: a generated name; the policy itself is known by its name on each holder."""

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
        """Return a name; `settle` puts the policy on its holders."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the policy on every holder."""
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
        """Take the policy off holders that lose it, or off all when its name changes."""
        renamed = request.properties["PolicyName"] != previous.properties["PolicyName"]
        kept = [] if renamed else _holders(request)
        _take_off(previous, [holder for holder in _holders(previous) if holder not in kept])

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Take the policy off every holder."""
        _take_off(request, _holders(request))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the identifier."""
        return {"Id": physical_id}


def _holders(request: ResourceRequest) -> list[tuple[str, str]]:
    return [(kind, name) for prop, kind in _HOLDERS.items() for name in request.properties.get(prop, [])]


def _take_off(request: ResourceRequest, holders: list[tuple[str, str]]) -> None:
    iam = request.client("iam")
    for kind, holder in holders:
        with ignoring("NoSuchEntity"):
            delete = getattr(iam, f"delete_{kind.lower()}_policy")
            delete(**{f"{kind}Name": holder}, PolicyName=request.properties["PolicyName"])
