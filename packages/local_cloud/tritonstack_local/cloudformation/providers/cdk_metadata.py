"""AWS::CDK::Metadata: what the CDK says about itself. It makes nothing, on AWS and here alike."""

from __future__ import annotations

from typing import ClassVar

from tritonstack_local.cloudformation.names import generated_name
from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest


class CdkMetadataProvider(Provider):
    """Identifier: a generated name. Makes nothing."""

    type_name = "AWS::CDK::Metadata"
    properties: ClassVar = {
        "Analytics": Property(
            effect=False, why="Usage statistics for AWS; the local cloud does not read them."
        )
    }

    def create(self, request: ResourceRequest) -> str:
        """Return a name; there is nothing to make."""
        return generated_name(request.stack.name, request.logical_id, max_length=128)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """There is nothing to remove."""
