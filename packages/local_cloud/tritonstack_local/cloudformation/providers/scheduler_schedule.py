"""AWS::Scheduler::Schedule."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_SETTINGS = (
    "Description",
    "EndDate",
    "FlexibleTimeWindow",
    "GroupName",
    "KmsKeyArn",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "State",
    "Target",
)
_REQUIRED = {"FlexibleTimeWindow", "ScheduleExpression", "Target"}


class Schedule(Provider):
    """Identifier: the schedule's name, which `Ref` answers too."""

    type_name = "AWS::Scheduler::Schedule"
    kept_only = "It is kept and read back; no schedule runs by the clock."
    name_property = "Name"
    properties: ClassVar = {
        "Name": Property(create_only=True),
        **{
            name: Property(shape=f"scheduler:CreateSchedule.{name}", required=name in _REQUIRED)
            for name in _SETTINGS
        },
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Make the schedule; one of that name must not exist."""
        name = request.name("Name", max_length=64)
        request.client("scheduler").create_schedule(Name=name, **request.api(*_SETTINGS))
        return name

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Write the schedule anew, whole; its group alone cannot change."""
        request.client("scheduler").update_schedule(Name=physical_id, **request.api(*_SETTINGS))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the schedule."""
        with ignoring("ResourceNotFoundException"):
            request.client("scheduler").delete_schedule(Name=physical_id, **request.api("GroupName"))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        stack, group = request.stack, request.properties.get("GroupName", "default")
        return {"Arn": f"arn:aws:scheduler:{stack.region}:{stack.account}:schedule/{group}/{physical_id}"}
