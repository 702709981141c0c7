"""AWS::Events rules and AWS::Scheduler schedules."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    ignoring,
)

_EVENT_SOURCES = "Only endpoints and PutEvents send events."
_DELIVERED = "Supported: SNS, SQS, log groups, event buses, and CodeBuild; other targets are rejected."
_KIND = "It applies to target types that are rejected."
_TARGETS = {
    "AppSyncParameters": _KIND,
    "BatchParameters": _KIND,
    "DeadLetterConfig": "It is stored and returned; undeliverable messages are dropped.",
    "EcsParameters": _KIND,
    "HttpParameters": _KIND,
    "Input": "Supported for topics and CodeBuild projects; rejected for other targets.",
    "InputPath": "Supported for topics and CodeBuild projects; rejected for other targets.",
    "KinesisParameters": _KIND,
    "RedshiftDataParameters": _KIND,
    "RetryPolicy": "It is stored and returned; an event is sent once.",
    "RoleArn": NOT_ENFORCED,
    "RunCommandParameters": _KIND,
    "SageMakerPipelineParameters": _KIND,
}


class RuleProvider(Provider):
    """Identifier: the rule's name, also returned by `Ref`."""

    type_name = "AWS::Events::Rule"
    name_property = "Name"
    properties: ClassVar = {
        "Description": Property(),
        "EventPattern": Property(reason=_EVENT_SOURCES),
        "Name": Property(create_only=True),
        "RoleArn": Property(effect=False, reason=NOT_ENFORCED),
        "ScheduleExpression": Property(
            effect=False, reason="It is stored and returned; no rule runs on a schedule."
        ),
        "State": Property(),
        "Tags": Property(shape="events:TagList"),
        "Targets": Property(shape="events:TargetList", reason=_DELIVERED, inner=_TARGETS),
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the whole rule each time."""
        return request.name("Name", max_length=64)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the rule, its targets and its tags."""
        events = request.client("events")
        given = request.api("Description", "RoleArn", "ScheduleExpression", "State")
        if "EventPattern" in request.properties:
            given["EventPattern"] = json.dumps(request.properties["EventPattern"])
        events.put_rule(Name=physical_id, **given)
        if request.properties.get("Targets"):
            made = events.put_targets(Rule=physical_id, Targets=request.value("Targets"))
            for rejected in made["FailedEntries"]:
                raise ProviderError(f"target {rejected['TargetId']}: {rejected['ErrorMessage']}")
        if request.properties.get("Tags"):
            events.tag_resource(ResourceARN=_arn(request, physical_id), Tags=request.value("Tags"))

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove targets and tags."""
        targets = _gone(request, previous, "Targets", "Id")
        if targets:
            request.client("events").remove_targets(Rule=physical_id, Ids=targets)
        tags = _gone(request, previous, "Tags", "Key")
        if tags:
            request.client("events").untag_resource(ResourceARN=_arn(request, physical_id), TagKeys=tags)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the targets and delete the rule."""
        events = request.client("events")
        with ignoring("ResourceNotFoundException"):
            targets = events.list_targets_by_rule(Rule=physical_id)["Targets"]
            if targets:
                events.remove_targets(Rule=physical_id, Ids=[target["Id"] for target in targets])
            events.delete_rule(Name=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        return {"Arn": _arn(request, physical_id)}


def _arn(request: ResourceRequest, name: str) -> str:
    return f"arn:aws:events:{request.stack.region}:{request.stack.account}:rule/{name}"


def _gone(request: ResourceRequest, previous: ResourceRequest, name: str, key: str) -> list[str]:
    kept = {item[key] for item in request.properties.get(name, [])}
    return [item[key] for item in previous.properties.get(name, []) if item[key] not in kept]


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


class ScheduleProvider(Provider):
    """Identifier: the schedule's name, also returned by `Ref`."""

    type_name = "AWS::Scheduler::Schedule"
    kept_only = "It is stored and returned; no schedule runs."
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
        """Create the schedule; the name must be unused."""
        name = request.name("Name", max_length=64)
        request.client("scheduler").create_schedule(Name=name, **request.api(*_SETTINGS))
        return name

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Replace the whole schedule; only its group cannot change."""
        request.client("scheduler").update_schedule(Name=physical_id, **request.api(*_SETTINGS))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the schedule."""
        with ignoring("ResourceNotFoundException"):
            request.client("scheduler").delete_schedule(Name=physical_id, **request.api("GroupName"))

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        stack, group = request.stack, request.properties.get("GroupName", "default")
        return {"Arn": f"arn:aws:scheduler:{stack.region}:{stack.account}:schedule/{group}/{physical_id}"}
