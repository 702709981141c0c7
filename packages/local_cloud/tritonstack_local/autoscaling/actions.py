"""The actions of the API on scalable targets, their policies, scheduled actions, activities, and tags.

Capacities follow in the background (scaler.py).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from tritonstack_local.autoscaling.alarms import TrackingAlarms
from tritonstack_local.autoscaling.records import (
    AutoScalingTables,
    PolicyRecord,
    ScheduledRecord,
    TargetId,
    TargetRecord,
)
from tritonstack_local.autoscaling.requests import (
    check_beside,
    described,
    missing,
    read_action,
    read_policy,
    target_id,
)
from tritonstack_local.autoscaling.scaler import History
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.tables import Table
from tritonstack_local.service.wire import Fields

SERVICE = "application-autoscaling"
OFFERED = (
    "RegisterScalableTarget",
    "DescribeScalableTargets",
    "DeregisterScalableTarget",
    "TagResource",
    "UntagResource",
    "ListTagsForResource",
    "PutScalingPolicy",
    "DescribeScalingPolicies",
    "DeleteScalingPolicy",
    "PutScheduledAction",
    "DescribeScheduledActions",
    "DeleteScheduledAction",
    "DescribeScalingActivities",
)
"""The actions of the API, each a method of `ScalingActions` by its name in boto3."""
_NOT_SUSPENDED = {
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
}
Record = TypeVar("Record", TargetRecord, PolicyRecord, ScheduledRecord)


class ScalingActions:
    """All actions. Thread-safe."""

    def __init__(self, *, store: AutoScalingTables, alarms: TrackingAlarms, history: History) -> None:
        self._store = store
        self._alarms = alarms
        self._history = history

    def register_scalable_target(self, scope: Scope, request: Fields) -> Fields:
        """Register a target, or change what the request names."""
        target = target_id(request)
        record = _put(
            self._store.targets, scope, target.name, lambda before: _target(scope, target, request, before)
        )
        self._store.tags.put(record.arn, _pairs(request.get("Tags") or {}))
        return {"ScalableTargetARN": record.arn}

    def describe_scalable_targets(self, scope: Scope, request: Fields) -> Fields:
        """Describe targets."""
        return described(self._store.targets.within(scope), request, "ScalableTargets")

    def deregister_scalable_target(self, scope: Scope, request: Fields) -> Fields:
        """Remove a target with what belongs to it."""
        record = self._registered(scope, target_id(request))
        self.remove(scope, record.target, "The scalable target was deregistered.")
        return {}

    def remove(self, scope: Scope, target: TargetId, reason: str) -> None:
        """Remove a target, its policies with their alarms, and its scheduled actions; its history stays."""
        for policy in self._store.policies.within(scope):
            if policy.target == target:
                self._alarms.delete(scope, policy.alarms)
                self._store.policies.remove(scope, policy.name)
        for action in self._store.scheduled.within(scope):
            if action.target == target:
                self._store.scheduled.remove(scope, action.name)
        record = self._store.targets.remove(scope, target.name)
        if record is not None:
            self._history.end(scope, record.activity, failure=reason)
            self._store.tags.forget(record.arn)

    def tag_resource(self, scope: Scope, request: Fields) -> Fields:
        """Tag a target."""
        self._store.tags.put(self._tagged(scope, request), _pairs(request["Tags"]))
        return {}

    def untag_resource(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags of a target."""
        self._store.tags.drop(self._tagged(scope, request), request["TagKeys"])
        return {}

    def list_tags_for_resource(self, scope: Scope, request: Fields) -> Fields:
        """List the tags of a target."""
        tags = self._store.tags.of(self._tagged(scope, request))
        return {"Tags": {tag["Key"]: tag["Value"] for tag in tags}}

    def put_scaling_policy(self, scope: Scope, request: Fields) -> Fields:
        """Create or replace a policy, with its alarms."""
        target = target_id(request)
        self._registered(scope, target)
        before = self._store.policies.get(scope, f"{target.name}|{request['PolicyName']}")
        policy = read_policy(scope, target, request, before)
        others = [item for item in self._store.policies.within(scope) if item.target == target]
        check_beside(policy, [other for other in others if other.name != policy.name])
        former = [] if before is None else before.alarms
        try:
            self._alarms.put(scope, policy)
        except ServiceError:  # leave no alarm that the policy did not have
            self._alarms.delete(scope, [name for name in policy.alarms if name not in former])
            raise
        _put(self._store.policies, scope, policy.name, lambda _: policy)
        self._alarms.delete(scope, [name for name in former if name not in policy.alarms])
        return {name: policy.fields[name] for name in ("PolicyARN", "Alarms")}

    def describe_scaling_policies(self, scope: Scope, request: Fields) -> Fields:
        """Describe policies."""
        return described(self._store.policies.within(scope), request, "ScalingPolicies")

    def delete_scaling_policy(self, scope: Scope, request: Fields) -> Fields:
        """Delete a policy and, for target tracking, its alarms."""
        target, name = target_id(request), request["PolicyName"]
        policy = self._store.policies.get(scope, f"{target.name}|{name}")
        if policy is None:
            raise missing("scaling policy", target, name)
        self._alarms.delete(scope, policy.alarms)
        self._store.policies.remove(scope, policy.name)
        return {}

    def put_scheduled_action(self, scope: Scope, request: Fields) -> Fields:
        """Create an action, or change what the request names."""
        target, now = target_id(request), time.time()
        self._registered(scope, target)
        name = f"{target.name}|{request['ScheduledActionName']}"
        _put(
            self._store.scheduled,
            scope,
            name,
            lambda before: read_action(scope, target, request, before, now),
        )
        return {}

    def describe_scheduled_actions(self, scope: Scope, request: Fields) -> Fields:
        """Describe scheduled actions."""
        return described(self._store.scheduled.within(scope), request, "ScheduledActions")

    def delete_scheduled_action(self, scope: Scope, request: Fields) -> Fields:
        """Delete a scheduled action."""
        target, name = target_id(request), request["ScheduledActionName"]
        if self._store.scheduled.remove(scope, f"{target.name}|{name}") is None:
            raise missing("scheduled action", target, name)
        return {}

    def describe_scaling_activities(self, scope: Scope, request: Fields) -> Fields:
        """Describe activities, newest first."""
        unscaled = request.get("IncludeNotScaledActivities", False)
        records = [
            record
            for record in self._store.activities.within(scope)
            if unscaled or "NotScaledReasons" not in record.fields
        ]
        records.sort(key=lambda record: record.started, reverse=True)
        return described(records, request, "ScalingActivities")

    def _registered(self, scope: Scope, target: TargetId) -> TargetRecord:
        record = self._store.targets.get(scope, target.name)
        if record is None:
            raise missing("scalable target", target)
        return record

    def _tagged(self, scope: Scope, request: Fields) -> str:
        arn = str(request["ResourceARN"])
        if arn not in {record.arn for record in self._store.targets.within(scope)}:
            raise ServiceError("ResourceNotFoundException", f"The specified resource doesn't exist: {arn}")
        return arn


def _put(table: Table[Record], scope: Scope, name: str, make: Callable[[Record | None], Record]) -> Record:
    """Replace a record, or add the first one of its name."""
    record = table.change(scope, name, make)
    if record is None:
        record = make(None)
        table.add(scope, record)
    return record


def _target(scope: Scope, target: TargetId, request: Fields, before: TargetRecord | None) -> TargetRecord:
    if before is None:
        absent = [name for name in ("MinCapacity", "MaxCapacity") if name not in request]
        if absent:
            raise validation_exception(
                f"{' and '.join(absent)} must be specified to register a scalable target"
            )
        fields = {
            "ScalableTargetARN": scope.arn(SERVICE, f"scalable-target/{uuid.uuid4().hex}"),
            "RoleARN": _service_role(scope),
            "CreationTime": datetime.now(UTC),
            "SuspendedState": _NOT_SUSPENDED,
        }
        before = TargetRecord(target=target, fields=fields)
    changes = {name: request[name] for name in ("MinCapacity", "MaxCapacity", "RoleARN") if name in request}
    suspended = {**before.fields["SuspendedState"], **(request.get("SuspendedState") or {})}
    record = replace(before, fields={**before.fields, **changes, "SuspendedState": suspended}, due=0.0)
    minimum, maximum = record.limits
    if minimum < 0 or maximum < minimum:
        raise validation_exception(
            f"Minimum capacity {minimum} must be at least 0 and at most the maximum capacity {maximum}"
        )
    return record


def _service_role(scope: Scope) -> str:
    service = "sagemaker.application-autoscaling.amazonaws.com"
    name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    return f"arn:{scope.partition}:iam::{scope.account}:role/aws-service-role/{service}/{name}"


def _pairs(tags: Fields) -> list[Fields]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
