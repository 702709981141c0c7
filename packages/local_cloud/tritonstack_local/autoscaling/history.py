"""The history of scaling activities, in AWS's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tritonstack.facts.scaling_rules import HISTORY_DAYS
from tritonstack_local.autoscaling.decisions import ScalingDecision
from tritonstack_local.autoscaling.records import NAMESPACE, ActivityRecord, AutoScalingTables, TargetId
from tritonstack_local.scope import Scope

_KEPT = 1000
"""Newest entries per target; at the usual time scale, six weeks last 17 hours."""


class History:
    """Writes activities."""

    def __init__(self, *, store: AutoScalingTables) -> None:
        self._store = store

    def last(self, scope: Scope, target: TargetId) -> ActivityRecord | None:
        """Return the newest activity of a target."""
        return next(iter(self._newest(scope, target)), None)

    def add(self, scope: Scope, record: ActivityRecord) -> None:
        """Add an activity; remove those that have expired."""
        self._store.activities.add(scope, record)
        oldest = datetime.now(UTC) - timedelta(days=HISTORY_DAYS)
        for number, item in enumerate(self._newest(scope, record.target)):
            if not item.running and (number >= _KEPT or item.started < oldest):
                self._store.activities.remove(scope, item.name)

    def end(
        self, scope: Scope, activity: str, *, failure: str | None = None, details: str | None = None
    ) -> None:
        """End an activity in progress, if it still exists."""
        self._store.activities.change(scope, activity, lambda record: _ended(record, failure, details))

    def _newest(self, scope: Scope, target: TargetId) -> list[ActivityRecord]:
        records = [record for record in self._store.activities.within(scope) if record.target == target]
        return sorted(records, key=lambda record: record.started, reverse=True)


def scaling_activity(target: TargetId, decision: ScalingDecision, *, base: int) -> ActivityRecord:
    """Return the activity of a policy."""
    proposal = decision.proposal
    cooldown_s = proposal.cooldown_out_s if decision.capacity > base else proposal.cooldown_in_s
    return replace(
        _setting(target, decision.capacity, base, _triggered(decision)),
        cooldown_s=cooldown_s,
    )


def limits_activity(target: TargetId, count: int, *, base: int) -> ActivityRecord:
    """Return the activity that brings a capacity between its limits."""
    side = "minimum" if count > base else "maximum"
    return _setting(target, count, base, f"{side} capacity was set to {count}")


def not_scaled(target: TargetId, decision: ScalingDecision) -> ActivityRecord:
    """Return the entry of a policy that changes nothing."""
    return _entry(
        target,
        "Attempting to scale due to alarm triggered",
        _triggered(decision),
        StatusCode="Failed",
        NotScaledReasons=[decision.reason],
    )


def schedule_activity(
    target: TargetId, action: str, limits: Mapping[str, int], *, failure: str | None
) -> ActivityRecord:
    """Return the entry of a scheduled action."""
    names = {"MinCapacity": "min capacity", "MaxCapacity": "max capacity"}
    text = " and ".join(f"{names[name]} to {limits[name]}" for name in names if name in limits) or "no limit"
    return _entry(
        target,
        f"Setting {text}",
        f"scheduled action name {action} was triggered",
        StatusCode="Failed" if failure else "Successful",
        StatusMessage=f"Failed to set {text}. Reason: {failure}" if failure else f"Successfully set {text}",
        EndTime=datetime.now(UTC),
    )


def _setting(target: TargetId, count: int, base: int, cause: str) -> ActivityRecord:
    """Return an activity that SageMaker has been asked for."""
    record = _entry(
        target,
        f"Setting desired instance count to {count}.",
        cause,
        StatusCode="InProgress",
        StatusMessage=f"{_set(count)} Waiting for change to be fulfilled by {NAMESPACE}.",
    )
    return replace(record, wanted=count, base=base)


def _ended(record: ActivityRecord, failure: str | None, details: str | None) -> ActivityRecord:
    outcome = {
        "StatusCode": "Failed" if failure else "Successful",
        "StatusMessage": f"Failed to set desired instance count to {record.wanted}. Reason: {failure}"
        if failure
        else f"{_set(record.wanted)} Change successfully fulfilled by {NAMESPACE}.",
        "Details": details,
        "EndTime": datetime.now(UTC),
    }
    return replace(record, fields={**record.fields, **outcome})


def _set(count: int | None) -> str:
    return f"Successfully set desired instance count to {count}."


def _triggered(decision: ScalingDecision) -> str:
    proposal = decision.proposal
    return f"monitor alarm {proposal.alarm} in state {proposal.state} triggered policy {proposal.policy}"


def _entry(target: TargetId, description: str, cause: str, **fields: Any) -> ActivityRecord:
    return ActivityRecord(target=target, fields={"Description": description, "Cause": cause, **fields})
