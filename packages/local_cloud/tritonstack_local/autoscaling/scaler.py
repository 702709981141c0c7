"""Scale targets in the background: observe alarms and endpoints, decide, and act.

One thread looks several times per minute of the cloud. As on AWS, scaling is blocked while its endpoint is
being updated: alarms trigger their policies again every minute (cloudwatch/alarms/evaluator.py), and a
capacity outside its limits stays due.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tritonstack.facts.scaling_rules import HISTORY_DAYS
from tritonstack_local.autoscaling.decisions import (
    AlarmReading,
    ScalingDecision,
    Situation,
    Triggered,
    decide,
    proposals_of,
)
from tritonstack_local.autoscaling.records import (
    NAMESPACE,
    TRACKING,
    ActivityRecord,
    AutoScalingTables,
    Cooldown,
    HistoryRecord,
    PolicyRecord,
    ScheduledRecord,
    TargetRecord,
)
from tritonstack_local.autoscaling.requests import CREATED_BY, due_time
from tritonstack_local.cloudwatch.moto_alarms import AlarmRecord
from tritonstack_local.sagemaker.endpoints import Endpoints, VariantCapacity
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

_KEPT = 1000
"""Newest entries per target; at the usual time scale, six weeks last 17 hours."""


class History:
    """Writes activities."""

    def __init__(self, *, store: AutoScalingTables) -> None:
        self._store = store

    def last(self, scope: Scope, resource: str) -> ActivityRecord | None:
        """Return the newest activity of a target."""
        history = self._store.histories.get(scope, resource)
        return history.entries[-1] if history is not None and history.entries else None

    def add(self, scope: Scope, entry: ActivityRecord) -> None:
        """Add an activity; remove those that have expired."""
        oldest = datetime.now(UTC) - timedelta(days=HISTORY_DAYS)
        self._store.histories.add(scope, HistoryRecord(entry.resource))

        def added(history: HistoryRecord) -> HistoryRecord:
            kept = [item for item in history.entries[1 - _KEPT :] if item.started >= oldest]
            return replace(history, entries=(*kept, entry))

        self._store.histories.change(scope, entry.resource, added)

    def end(
        self, scope: Scope, target: TargetRecord, *, failure: str | None = None, details: str | None = None
    ) -> None:
        """End a target's activity in progress, if there is one."""

        def ended(history: HistoryRecord) -> HistoryRecord:
            entries = (
                _ended(entry, failure, details) if entry.id == target.activity else entry
                for entry in history.entries
            )
            return replace(history, entries=tuple(entries))

        self._store.histories.change(scope, target.resource, ended)

    def find(self, scope: Scope, target: TargetRecord) -> ActivityRecord | None:
        """Return a target's activity in progress."""
        history = self._store.histories.get(scope, target.resource)
        entries = () if history is None else reversed(history.entries)
        return next((entry for entry in entries if entry.id == target.activity), None)


def scaling_activity(resource: str, decision: ScalingDecision, *, base: int) -> ActivityRecord:
    """Return the activity of a policy."""
    proposal = decision.proposal
    cooldown_s = proposal.cooldown_out_s if decision.capacity > base else proposal.cooldown_in_s
    return replace(
        _setting(resource, decision.capacity, base, _triggered(decision)),
        cooldown_s=cooldown_s,
    )


def limits_activity(resource: str, count: int, *, base: int) -> ActivityRecord:
    """Return the activity that brings a capacity between its limits."""
    side = "minimum" if count > base else "maximum"
    return _setting(resource, count, base, f"{side} capacity was set to {count}")


def not_scaled(resource: str, decision: ScalingDecision) -> ActivityRecord:
    """Return the entry of a policy that changes nothing."""
    return _entry(
        resource,
        "Attempting to scale due to alarm triggered",
        _triggered(decision),
        StatusCode="Failed",
        NotScaledReasons=[decision.reason],
    )


def schedule_activity(
    resource: str, action: str, limits: Mapping[str, int], *, failure: str | None
) -> ActivityRecord:
    """Return the entry of a scheduled action."""
    names = {"MinCapacity": "min capacity", "MaxCapacity": "max capacity"}
    text = " and ".join(f"{names[name]} to {limits[name]}" for name in names if name in limits) or "no limit"
    return _entry(
        resource,
        f"Setting {text}",
        f"scheduled action name {action} was triggered",
        StatusCode="Failed" if failure else "Successful",
        StatusMessage=f"Failed to set {text}. Reason: {failure}" if failure else f"Successfully set {text}",
        EndTime=datetime.now(UTC),
    )


def _setting(resource: str, count: int, base: int, cause: str) -> ActivityRecord:
    """Return an activity that SageMaker has been asked for."""
    record = _entry(
        resource,
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


def _entry(resource: str, description: str, cause: str, **fields: Any) -> ActivityRecord:
    return ActivityRecord(resource=resource, fields={"Description": description, "Cause": cause, **fields})


_LOOKS_A_MINUTE = 6
_SHORTEST_PAUSE_S = 0.05

log = logging.getLogger(__name__)


class Scaler:
    """Scales all targets of all scopes in one thread."""

    def __init__(
        self,
        *,
        store: AutoScalingTables,
        history: History,
        endpoints: Endpoints,
        read_alarm: Callable[[Scope, str], AlarmReading | None],
        remove_target: Callable[[Scope, str, str], None],
        time_scale: TimeScale,
    ) -> None:
        """`remove_target` gets the reason, which ends the target's activity in progress."""
        self._store = store
        self._history = history
        self._endpoints = endpoints
        self._read_alarm = read_alarm
        self._remove_target = remove_target
        self._time_scale = time_scale
        self._triggered: list[tuple[Scope, PolicyRecord, str]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="auto scaling", daemon=True)

    def start(self) -> None:
        """Begin to scale."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._ended.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def alarmed(self, alarm: AlarmRecord, action: str) -> str | None:
        """Note that an alarm triggers a policy; return why it does not."""
        arn = action.partition(CREATED_BY)[0]
        resource, _, name = arn.partition(f":resource/{NAMESPACE}/")[2].partition(":policyName/")
        target = self._store.targets.get(alarm.scope, resource)
        policy = None if target is None else target.policies.get(name)
        if policy is None or policy.arn != arn:
            return f"No scaling policy found for ARN {arn}"
        with self._lock:
            self._triggered.append((alarm.scope, policy, alarm.name))
        self._woken.set()
        return None

    def look(self, now: float) -> None:
        """Observe every target once, and act."""
        with self._lock:
            triggered, self._triggered = self._triggered, []
        by_target: dict[tuple[Scope, str], list[Triggered]] = defaultdict(list)
        for scope, policy, alarm in triggered:
            by_target[scope, policy.resource].append((policy, alarm))
        for scope, target in self._store.targets.everywhere():
            try:
                self._run_schedules(scope, target, now)
                self._look_at(scope, target, by_target[scope, target.name], now)
            except Exception:  # an error in one target must not stop the others
                log.exception("scaling %s", target.resource)

    def _run(self) -> None:
        pause = max(_SHORTEST_PAUSE_S, self._time_scale.lasting(REAL_MINUTE_S) / _LOOKS_A_MINUTE)
        while not self._ended.is_set():
            self._woken.wait(pause)
            self._woken.clear()
            if not self._ended.is_set():
                self.look(time.time())

    def _look_at(self, scope: Scope, target: TargetRecord, triggered: list[Triggered], now: float) -> None:
        capacity = self._endpoints.capacity_of(scope, *target.variant)
        if capacity is None:
            reason = "The endpoint or its variant no longer exists."
            if target.attached:
                log.info("%s is gone: deregistering it", target.resource)
                self._remove_target(scope, target.resource, reason)
            elif target.activity:
                self._end(scope, target, reason)
            return
        if not target.attached:
            self._change(scope, target, attached=True)
        if target.activity and capacity.settled:
            self._conclude(scope, target, capacity, now)
        current = self._store.targets.get(scope, target.name)
        if current is None or current.activity or capacity.status != "InService":
            return
        if current.due is not None and current.due <= now:
            self._limit(scope, current, capacity, now)
        elif triggered:
            self._scale(scope, current, triggered, capacity, now)

    def _run_schedules(self, scope: Scope, target: TargetRecord, now: float) -> None:
        """Run the due actions of a target; after an interruption, each one once, for its last time."""
        due = [
            (record.since + self._time_scale.lasting(at - record.since), at, record)
            for record in target.schedules.values()
            if (at := due_time(record, now, self._time_scale)) is not None
        ]
        for _, at, record in sorted(due, key=lambda item: item[0]):
            if not target.suspends("ScheduledScalingSuspended"):
                self._set_limits(scope, target, record)
            self._store.targets.change(scope, target.name, partial(_done, name=record.name, at=at))

    def _set_limits(self, scope: Scope, target: TargetRecord, action: ScheduledRecord) -> None:
        limits, failure = action.fields["ScalableTargetAction"], None

        def limited(current: TargetRecord) -> TargetRecord:
            nonlocal failure
            changed = replace(current, fields={**current.fields, **limits}, due=0.0)
            low, high = changed.limits
            failure = f"Minimum capacity {low} exceeds maximum capacity {high}" if low > high else None
            return current if failure else changed

        self._store.targets.change(scope, target.name, limited)
        name = action.fields["ScheduledActionName"]
        self._history.add(scope, schedule_activity(target.resource, name, limits, failure=failure))

    def _limit(self, scope: Scope, target: TargetRecord, capacity: VariantCapacity, now: float) -> None:
        """Bring a capacity between its limits; if that fails, try again in a minute."""
        minimum, maximum = target.limits
        count = min(max(capacity.desired, minimum), maximum)
        again = None if count == capacity.desired else now + self._time_scale.lasting(REAL_MINUTE_S)

        def tried(record: TargetRecord) -> TargetRecord:
            return replace(record, due=again) if record.limits == target.limits else record

        self._store.targets.change(scope, target.name, tried)
        if again is not None:
            self._begin(scope, target, limits_activity(target.resource, count, base=capacity.desired))

    def _scale(
        self,
        scope: Scope,
        target: TargetRecord,
        triggered: list[Triggered],
        capacity: VariantCapacity,
        now: float,
    ) -> None:
        cooldown, (minimum, maximum) = target.cooldown, target.limits
        situation = Situation(
            capacity=capacity.desired,
            minimum=minimum,
            maximum=maximum,
            cooldown=cooldown if cooldown is not None and now < cooldown.ends else None,
            out_suspended=target.suspends("DynamicScalingOutSuspended"),
            in_suspended=target.suspends("DynamicScalingInSuspended"),
        )
        tracking = [policy for policy in target.policies.values() if policy.kind == TRACKING]
        proposals = proposals_of(triggered, tracking, lambda name: self._read_alarm(scope, name), situation)
        decision = decide(situation, list(proposals))
        if decision is None:
            return
        if decision.reason is None:
            self._begin(scope, target, scaling_activity(target.resource, decision, base=capacity.desired))
            return
        # As on AWS, a repeated reason is recorded once.
        last, entry = self._history.last(scope, target.resource), not_scaled(target.resource, decision)
        if last is None or last.fields.get("NotScaledReasons") != entry.fields["NotScaledReasons"]:
            self._history.add(scope, entry)

    def _begin(self, scope: Scope, target: TargetRecord, activity: ActivityRecord) -> None:
        log.info("%s: %s %s", target.resource, activity.fields["Description"], activity.fields["Cause"])
        self._history.add(scope, activity)
        begun = replace(target, activity=activity.id)
        if self._change(scope, target, activity=activity.id) is None:
            self._history.end(scope, begun, failure="The scalable target was deregistered.")
            return
        endpoint, variant = target.variant
        capacity = {"VariantName": variant, "DesiredInstanceCount": activity.wanted}
        request = {"EndpointName": endpoint, "DesiredWeightsAndCapacities": [capacity]}
        try:
            self._endpoints.update_weights_and_capacities(scope, request)
        except ServiceError as error:
            failure = f"{error.message} (Service: AmazonSageMaker; {error.code})"
            self._end(scope, begun, failure)

    def _conclude(self, scope: Scope, target: TargetRecord, capacity: VariantCapacity, now: float) -> None:
        """End the activity in progress: SageMaker has settled."""
        activity = self._history.find(scope, target)
        if activity is None or activity.wanted is None or capacity.desired != activity.wanted:
            self._end(scope, target, capacity.failure or "The endpoint has another instance count.")
            return
        if activity.cooldown_s is not None:
            cooldown = Cooldown(
                direction="out" if activity.wanted > activity.base else "in",
                base=activity.base,
                ends=now + self._time_scale.lasting(activity.cooldown_s),
            )
            self._change(scope, target, cooldown=cooldown)
        self._end(scope, target, None, details=capacity.shortage)

    def _end(
        self, scope: Scope, target: TargetRecord, failure: str | None, *, details: str | None = None
    ) -> None:
        self._history.end(scope, target, failure=failure, details=details)
        self._change(scope, target, activity="")

    def _change(self, scope: Scope, target: TargetRecord, **changes: Any) -> TargetRecord | None:
        """Change a target's record; return None if it was deregistered meanwhile."""
        return self._store.targets.change(scope, target.name, lambda record: replace(record, **changes))


def _done(target: TargetRecord, *, name: str, at: float) -> TargetRecord:
    """Note until when a scheduled action has run, if it was not deleted meanwhile."""
    if name not in target.schedules:
        return target
    return replace(target, schedules={**target.schedules, name: replace(target.schedules[name], done=at)})
