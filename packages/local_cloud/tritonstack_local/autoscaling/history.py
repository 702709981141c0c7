"""The history of scaling activities, in AWS's words."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tritonstack.reference.scaling_rules import HISTORY_DAYS
from tritonstack_local.autoscaling.decisions import ScalingDecision
from tritonstack_local.autoscaling.records import (
    NAMESPACE,
    ActivityRecord,
    ActivityStatus,
    AutoScalingTables,
    TargetId,
)
from tritonstack_local.autoscaling.requests import check_namespace, key_fields, paged, selected
from tritonstack_local.scope import Scope
from tritonstack_local.service.wire import Fields

_KEPT = 1000
"""Newest entries per target; at the usual time scale, six weeks last 17 hours."""


class History:
    """Writes and describes activities."""

    def __init__(self, *, store: AutoScalingTables) -> None:
        self._store = store

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe activities, newest first."""
        check_namespace(request)
        unscaled = request.get("IncludeNotScaledActivities", False)
        records = [
            record
            for record in self._store.activities.within(scope)
            if selected(request, record.target) and (unscaled or not record.reasons)
        ]
        records.sort(key=lambda record: record.started, reverse=True)
        return paged(records, request, "ScalingActivities", _shown)

    def last(self, scope: Scope, target: TargetId) -> ActivityRecord | None:
        """Return the newest activity of a target."""
        records = [record for record in self._store.activities.within(scope) if record.target == target]
        return max(records, key=lambda record: record.started, default=None)

    def add(self, scope: Scope, record: ActivityRecord) -> None:
        """Add an activity; remove those that have expired."""
        self._store.activities.add(scope, record)
        kept = [
            item
            for item in self._store.activities.within(scope)
            if item.target == record.target and not item.running
        ]
        kept.sort(key=lambda item: item.started, reverse=True)
        oldest = datetime.now(UTC) - timedelta(days=HISTORY_DAYS)
        for number, item in enumerate(kept):
            if number >= _KEPT or item.started < oldest:
                self._store.activities.remove(scope, item.name)

    def move(
        self, scope: Scope, record: ActivityRecord, status: ActivityStatus, message: str, details: str | None
    ) -> None:
        """Set the status of an activity."""
        ended = None if status == "InProgress" else datetime.now(UTC)
        self._store.activities.change(
            scope,
            record.name,
            lambda current: replace(current, status=status, message=message, details=details, ended=ended),
        )


def scaling_activity(target: TargetId, decision: ScalingDecision, *, base: int) -> ActivityRecord:
    """Return the activity of a policy."""
    proposal = decision.proposal
    cooldown_s = proposal.cooldown_out_s if decision.capacity > base else proposal.cooldown_in_s
    return replace(
        _new(target, _setting(decision.capacity), _triggered(decision), "Pending"),
        wanted=decision.capacity,
        base=base,
        cooldown_s=cooldown_s,
    )


def not_scaled(target: TargetId, decision: ScalingDecision) -> ActivityRecord:
    """Return the entry of a policy that changes nothing."""
    record = _new(target, "Attempting to scale due to alarm triggered", _triggered(decision), "Failed")
    return replace(record, reasons=(decision.reason or {},))


def limits_activity(target: TargetId, count: int, *, base: int) -> ActivityRecord:
    """Return the activity that brings a capacity between its limits."""
    side = "minimum" if count > base else "maximum"
    cause = f"{side} capacity was set to {count}"
    return replace(_new(target, _setting(count), cause, "Pending"), wanted=count, base=base)


def schedule_activity(
    target: TargetId, action: str, limits: Mapping[str, int], *, failure: str | None
) -> ActivityRecord:
    """Return the entry of a scheduled action."""
    names = {"MinCapacity": "min capacity", "MaxCapacity": "max capacity"}
    text = " and ".join(f"{names[name]} to {limits[name]}" for name in names if name in limits) or "no limit"
    status: ActivityStatus = "Failed" if failure else "Successful"
    record = _new(target, f"Setting {text}", f"scheduled action name {action} was triggered", status)
    message = f"Failed to set {text}. Reason: {failure}" if failure else f"Successfully set {text}"
    return replace(record, message=message, ended=record.started)


def accepted(record: ActivityRecord) -> str:
    """Return the message of an activity that SageMaker has accepted."""
    return f"{_set(record)} Waiting for change to be fulfilled by {NAMESPACE}."


def fulfilled(record: ActivityRecord) -> str:
    """Return the message of a completed activity."""
    return f"{_set(record)} Change successfully fulfilled by {NAMESPACE}."


def failed(record: ActivityRecord, reason: str) -> str:
    """Return the message of a failed activity."""
    return f"Failed to set desired instance count to {record.wanted}. Reason: {reason}"


def _set(record: ActivityRecord) -> str:
    return f"Successfully set desired instance count to {record.wanted}."


def _setting(capacity: int) -> str:
    return f"Setting desired instance count to {capacity}."


def _triggered(decision: ScalingDecision) -> str:
    proposal = decision.proposal
    return f"monitor alarm {proposal.alarm} in state {proposal.state} triggered policy {proposal.policy}"


def _new(target: TargetId, description: str, cause: str, status: ActivityStatus) -> ActivityRecord:
    return ActivityRecord(
        name=str(uuid.uuid4()),
        target=target,
        description=description,
        cause=cause,
        started=datetime.now(UTC),
        status=status,
    )


def _shown(record: ActivityRecord) -> Mapping[str, Any]:
    return {
        **key_fields(record.target),
        "ActivityId": record.name,
        "Description": record.description,
        "Cause": record.cause,
        "StartTime": record.started,
        "EndTime": record.ended,
        "StatusCode": record.status,
        "StatusMessage": record.message,
        "Details": record.details,
        "NotScaledReasons": list(record.reasons) or None,
    }
