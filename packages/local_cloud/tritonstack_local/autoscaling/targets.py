"""The actions on scalable targets and their tags."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tritonstack_local.autoscaling.errors import no_resource
from tritonstack_local.autoscaling.records import AutoScalingTables, TargetId, TargetRecord
from tritonstack_local.autoscaling.requests import (
    check_namespace,
    key_fields,
    paged,
    registered,
    target_id,
)
from tritonstack_local.autoscaling.tracking_alarms import TrackingAlarms
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.wire import Fields

_SERVICE = "application-autoscaling"
_NOT_SUSPENDED = {
    "DynamicScalingInSuspended": False,
    "DynamicScalingOutSuspended": False,
    "ScheduledScalingSuspended": False,
}


class ScalableTargets:
    """Registers, describes, and deregisters targets. Their capacity follows in the background."""

    def __init__(self, *, store: AutoScalingTables, alarms: TrackingAlarms) -> None:
        self._store = store
        self._alarms = alarms

    def register(self, scope: Scope, request: Fields) -> Fields:
        """Register a target, or change what the request names."""
        target = target_id(request)
        record = self._store.targets.change(scope, target.name, lambda current: _changed(current, request))
        if record is None:
            record = _new(scope, target, request)
            self._store.targets.add(scope, record)
        if tags := request.get("Tags"):
            self._store.tags.put(record.arn, _pairs(tags))
        return {"ScalableTargetARN": record.arn}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe targets."""
        check_namespace(request)
        resources = request.get("ResourceIds") or None
        targets = [
            record
            for record in self._store.targets.within(scope)
            if (resources is None or record.id.resource in resources)
            and request.get("ScalableDimension", record.id.dimension) == record.id.dimension
        ]
        return paged(targets, request, "ScalableTargets", _shown)

    def deregister(self, scope: Scope, request: Fields) -> Fields:
        """Remove a target with its policies, their alarms, and its scheduled actions."""
        target = target_id(request)
        registered(self._store, scope, target)
        self.remove(scope, target)
        return {}

    def remove(self, scope: Scope, target: TargetId) -> None:
        """Remove a target, if it exists, and everything that belongs to it; its history stays."""
        for policy in self._store.policies.within(scope):
            if policy.target == target:
                self._alarms.delete(scope, policy.alarms)
                self._store.policies.remove(scope, policy.name)
        for action in self._store.scheduled.within(scope):
            if action.target == target:
                self._store.scheduled.remove(scope, action.name)
        record = self._store.targets.remove(scope, target.name)
        if record is not None:
            self._store.tags.forget(record.arn)

    def tag(self, scope: Scope, request: Fields) -> Fields:
        """Tag a target."""
        self._store.tags.put(self._tagged(scope, request), _pairs(request["Tags"]))
        return {}

    def untag(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags of a target."""
        self._store.tags.drop(self._tagged(scope, request), request["TagKeys"])
        return {}

    def list_tags(self, scope: Scope, request: Fields) -> Fields:
        """List the tags of a target."""
        tags = self._store.tags.of(self._tagged(scope, request))
        return {"Tags": {tag["Key"]: tag["Value"] for tag in tags}}

    def _tagged(self, scope: Scope, request: Fields) -> str:
        arn = str(request["ResourceARN"])
        if arn not in {record.arn for record in self._store.targets.within(scope)}:
            raise no_resource(arn)
        return arn


def _new(scope: Scope, target: TargetId, request: Fields) -> TargetRecord:
    missing = [name for name in ("MinCapacity", "MaxCapacity") if name not in request]
    if missing:
        raise validation_exception(f"{' and '.join(missing)} must be specified to register a scalable target")
    _check_limits(request["MinCapacity"], request["MaxCapacity"])
    return TargetRecord(
        id=target,
        arn=scope.arn(_SERVICE, f"scalable-target/{uuid.uuid4().hex}"),
        created=datetime.now(UTC),
        minimum=request["MinCapacity"],
        maximum=request["MaxCapacity"],
        role_arn=request.get("RoleARN") or _service_role(scope),
        suspended=_NOT_SUSPENDED | dict(request.get("SuspendedState") or {}),
        due=True,
    )


def _changed(record: TargetRecord, request: Fields) -> TargetRecord:
    minimum = request.get("MinCapacity", record.minimum)
    maximum = request.get("MaxCapacity", record.maximum)
    _check_limits(minimum, maximum)
    return replace(
        record,
        minimum=minimum,
        maximum=maximum,
        role_arn=request.get("RoleARN") or record.role_arn,
        suspended=dict(record.suspended) | dict(request.get("SuspendedState") or {}),
        due=True,
    )


def _check_limits(minimum: int, maximum: int) -> None:
    if minimum < 0 or maximum < minimum:
        raise validation_exception(
            f"Minimum capacity {minimum} must be at least 0 and at most the maximum capacity {maximum}"
        )


def _service_role(scope: Scope) -> str:
    service = "sagemaker.application-autoscaling.amazonaws.com"
    name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    return f"arn:{scope.partition}:iam::{scope.account}:role/aws-service-role/{service}/{name}"


def _shown(record: TargetRecord) -> Mapping[str, Any]:
    return {
        **key_fields(record.id),
        "ScalableTargetARN": record.arn,
        "MinCapacity": record.minimum,
        "MaxCapacity": record.maximum,
        "RoleARN": record.role_arn,
        "CreationTime": record.created,
        "SuspendedState": record.suspended,
    }


def _pairs(tags: Mapping[str, str]) -> list[Mapping[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
