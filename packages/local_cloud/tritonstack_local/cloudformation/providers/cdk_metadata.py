"""AWS::CDK::Metadata: usage statistics of the CDK. It creates nothing, as on AWS."""

from __future__ import annotations

from typing import ClassVar

from tritonstack_local.cloudformation.names import generated_name
from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest


class CdkMetadataProvider(Provider):
    """Identifier: a generated name. Creates nothing."""

    type_name = "AWS::CDK::Metadata"
    properties: ClassVar = {
        "Analytics": Property(
            effect=False, why="Usage statistics for AWS; the local cloud does not read them."
        )
    }

    def create(self, request: ResourceRequest) -> str:
        """Return a name; there is nothing to create."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Do nothing."""
