"""AWS::Logs::MetricFilter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_TRANSFORMATION = {
    "DefaultValue": None,
    "Dimensions": {"Key": None, "Value": None},
    "MetricName": None,
    "MetricNamespace": None,
    "MetricValue": None,
    "Unit": None,
}


class MetricFilter(Provider):
    """Identifier: the filter's name; it lives in one log group."""

    type_name = "AWS::Logs::MetricFilter"
    name_property = "FilterName"
    properties: ClassVar = {
        "FilterName": Property(create_only=True),
        "FilterPattern": Property(
            required=True, why="Patterns for plain text count; those for JSON and columns are refused."
        ),
        "LogGroupName": Property(create_only=True, required=True),
        "MetricTransformations": Property(
            members=_TRANSFORMATION,
            required=True,
            inner={
                "Dimensions": "Refused: they name fields of JSON or columns.",
                "MetricValue": "A number; values that stand in the lines are refused.",
            },
        ),
    }

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the filter."""
        return request.name("FilterName", max_length=512)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the filter."""
        transformations = [_transformation(item) for item in request.properties["MetricTransformations"]]
        request.client("logs").put_metric_filter(
            logGroupName=request.properties["LogGroupName"],
            filterName=physical_id,
            filterPattern=request.properties["FilterPattern"],
            metricTransformations=transformations,
        )

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the filter."""
        with ignoring("ResourceNotFoundException"):
            request.client("logs").delete_metric_filter(
                logGroupName=request.properties["LogGroupName"], filterName=physical_id
            )


def _transformation(item: Mapping[str, Any]) -> dict[str, Any]:
    converted = {f"{key[0].lower()}{key[1:]}": value for key, value in item.items()}
    if "defaultValue" in converted:
        converted["defaultValue"] = float(converted["defaultValue"])
    if "dimensions" in converted:
        converted["dimensions"] = {entry["Key"]: entry["Value"] for entry in converted["dimensions"]}
    return converted
