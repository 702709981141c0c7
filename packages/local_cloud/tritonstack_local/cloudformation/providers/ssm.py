"""AWS::SSM::Parameter."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring


class ParameterProvider(Provider):
    """Identifier: the parameter's name."""

    type_name = "AWS::SSM::Parameter"
    name_property = "Name"
    maps_tags = True
    properties: ClassVar = {
        "AllowedPattern": Property(
            effect=False, why="It is stored and returned; values are not checked against it."
        ),
        "DataType": Property(effect=False, why="It is stored and returned; the image is not checked."),
        "Description": Property(),
        "Name": Property(create_only=True),
        "Tags": Property(),
        "Tier": Property(effect=False, why="It is stored and returned; every parameter has the same limits."),
        "Type": Property(required=True),
        "Value": Property(required=True),
    }
    attribute_names = frozenset({"Type", "Value"})
    volatile_attributes = frozenset({"Type", "Value"})

    def create(self, request: ResourceRequest) -> str:
        """Create the parameter; the name must be unused."""
        name = request.name("Name", max_length=2048)
        request.client("ssm").put_parameter(Name=name, Overwrite=False, **_settings(request))
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        tags = [
            {"Key": key, "Value": str(value)} for key, value in request.properties.get("Tags", {}).items()
        ]
        if tags:
            request.client("ssm").add_tags_to_resource(
                ResourceType="Parameter", ResourceId=physical_id, Tags=tags
            )

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the value and remove tags."""
        ssm = request.client("ssm")
        ssm.put_parameter(Name=physical_id, Overwrite=True, **_settings(request))
        gone = sorted(previous.properties.get("Tags", {}).keys() - request.properties.get("Tags", {}).keys())
        if gone:
            ssm.remove_tags_from_resource(ResourceType="Parameter", ResourceId=physical_id, TagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the parameter."""
        with ignoring("ParameterNotFound"):
            request.client("ssm").delete_parameter(Name=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return type and value."""
        return {"Type": request.properties["Type"], "Value": str(request.properties["Value"])}


def _settings(request: ResourceRequest) -> dict[str, str]:
    names = ("AllowedPattern", "DataType", "Description", "Tier", "Type", "Value")
    return {name: str(request.properties[name]) for name in names if name in request.properties}
