"""AWS::CloudWatch::Dashboard."""

from __future__ import annotations

import json
from typing import ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring


class Dashboard(Provider):
    """Identifier: the dashboard's name."""

    type_name = "AWS::CloudWatch::Dashboard"
    name_property = "DashboardName"
    properties: ClassVar = {
        "DashboardBody": Property(
            required=True, why="It is kept and read back; there is no console that shows it."
        ),
        "DashboardName": Property(create_only=True),
        "Tags": Property(effect=False, why="They are not kept: nothing here asks for them."),
    }

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the dashboard."""
        return request.name("DashboardName", max_length=255)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the dashboard."""
        body = request.properties["DashboardBody"]
        request.client("cloudwatch").put_dashboard(
            DashboardName=physical_id, DashboardBody=body if isinstance(body, str) else json.dumps(body)
        )

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the dashboard."""
        with ignoring("DashboardNotFoundError", "ResourceNotFound"):
            request.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])
