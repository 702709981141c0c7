"""AWS::EC2::FlowLog."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
)
from tritonstack_local.cloudformation.providers.ec2_common import TAGS, drop_tags, put_tags

_SETTINGS = (
    "DeliverLogsPermissionArn",
    "LogDestination",
    "LogDestinationType",
    "LogFormat",
    "LogGroupName",
    "MaxAggregationInterval",
    "TrafficType",
)


class FlowLog(Provider):
    """Identifier: the flow log's id. Nothing but its tags can change."""

    type_name = "AWS::EC2::FlowLog"
    kept_only = "There is no network whose traffic could be logged."
    properties: ClassVar = {
        "ResourceId": Property(create_only=True, required=True),
        "ResourceType": Property(create_only=True, required=True),
        "Tags": TAGS,
        **{name: Property(shape=f"ec2:CreateFlowLogs.{name}", create_only=True) for name in _SETTINGS},
    }
    attribute_names = frozenset({"Id"})

    def create(self, request: ResourceRequest) -> str:
        """Make the flow log."""
        made = request.client("ec2").create_flow_logs(
            ResourceIds=[request.properties["ResourceId"]], **request.api("ResourceType", *_SETTINGS)
        )
        for refused in made.get("Unsuccessful", []):
            raise ProviderError(refused["Error"]["Message"])
        return str(made["FlowLogIds"][0])

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the tags."""
        put_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Take back tags."""
        drop_tags(request, physical_id, previous)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the flow log."""
        with ignoring("InvalidFlowLogId.NotFound"):
            request.client("ec2").delete_flow_logs(FlowLogIds=[physical_id])

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the id."""
        return {"Id": physical_id}
