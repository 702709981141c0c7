"""AWS::KMS::Alias."""

from __future__ import annotations

from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring


class Alias(Provider):
    """Identifier: the alias name."""

    type_name = "AWS::KMS::Alias"
    name_property = "AliasName"
    properties: ClassVar = {
        "AliasName": Property(create_only=True, required=True),
        "TargetKeyId": Property(required=True),
    }

    def create(self, request: ResourceRequest) -> str:
        """Make the alias."""
        request.client("kms").create_alias(**request.api())
        return str(request.properties["AliasName"])

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Point the alias at another key."""
        request.client("kms").update_alias(**request.api())

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the alias."""
        with ignoring("NotFoundException"):
            request.client("kms").delete_alias(AliasName=physical_id)
