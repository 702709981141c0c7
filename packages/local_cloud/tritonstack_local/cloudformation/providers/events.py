"""AWS::Events rules."""

from __future__ import annotations

from tritonstack_local.cloudformation.providers.base import (
    NOT_ENFORCED,
    Deletion,
    Name,
    Property,
    Provider,
    ProviderError,
    ResourceRequest,
    Tagging,
    ignoring,
    kept,
)

_EVENT_SOURCES = "Only endpoints and PutEvents send events."
_DELIVERED = "Supported: SNS, SQS, log groups, event buses, and CodeBuild; other targets are rejected."
_KIND = "It applies to target types that are rejected."
_INPUT = "Rejected: topics have input transformers."
_TARGETS = {
    "AppSyncParameters": _KIND,
    "BatchParameters": _KIND,
    "DeadLetterConfig": "It is stored and returned; undeliverable messages are dropped.",
    "EcsParameters": _KIND,
    "HttpParameters": _KIND,
    "Input": _INPUT,
    "InputPath": _INPUT,
    "InputTransformer": "Rejected for CodeBuild projects, whose builds take no input.",
    "KinesisParameters": _KIND,
    "RedshiftDataParameters": _KIND,
    "RetryPolicy": "It is stored and returned; an event is sent once.",
    "RoleArn": NOT_ENFORCED,
    "RunCommandParameters": _KIND,
    "SageMakerPipelineParameters": _KIND,
}


class RuleProvider(Provider):
    """Identifier: the rule's name, also returned by `Ref`."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the rule, its targets and its tags."""
        super().settle(request, physical_id)
        if targets := request.value("Targets"):
            answer = request.client("events").put_targets(Rule=physical_id, Targets=targets)
            for rejected in answer["FailedEntries"]:
                raise ProviderError(f"target {rejected['TargetId']}: {rejected['ErrorMessage']}")

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Remove targets and tags."""
        super().update(request, physical_id, previous)
        before, after = (
            {target["Id"] for target in item.properties.get("Targets", [])} for item in (previous, request)
        )
        if before - after:
            request.client("events").remove_targets(Rule=physical_id, Ids=sorted(before - after))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the targets and delete the rule."""
        events = request.client("events")
        with ignoring(self.deletion.gone):
            if targets := events.list_targets_by_rule(Rule=physical_id)["Targets"]:
                events.remove_targets(Rule=physical_id, Ids=[target["Id"] for target in targets])
            events.delete_rule(Name=physical_id)


_RULE_ARN = "arn:aws:events:{region}:{account}:rule/{id}"

_RULE = RuleProvider(
    type_name="AWS::Events::Rule",
    identifier="Name",
    name=Name("Name", 64),
    properties={
        "Description": Property(),
        "EventPattern": Property(as_text=True, reason=_EVENT_SOURCES),
        "Name": Property(create_only=True),
        "RoleArn": Property(effect=False, reason=NOT_ENFORCED),
        "ScheduleExpression": kept("no rule runs on a schedule."),
        "State": Property(),
        "Tags": Property(shape="events:TagList"),
        "Targets": Property(shape="events:TargetList", reason=_DELIVERED, inner=_TARGETS),
    },
    unsent=("Targets",),
    put_operation="put_rule",
    tagging=Tagging("tag_resource", "untag_resource", {"ResourceARN": _RULE_ARN}),
    deletion=Deletion("", "ResourceNotFoundException"),
    attributes={"Arn": _RULE_ARN},
)


TYPES = (_RULE,)
