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
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tritonstack_local.autoscaling import history as words
from tritonstack_local.autoscaling.calendars import Calendars
from tritonstack_local.autoscaling.decisions import AlarmReading, Situation, decide, within_limits
from tritonstack_local.autoscaling.history import History
from tritonstack_local.autoscaling.policies import TRACKING
from tritonstack_local.autoscaling.proposals import Triggered, proposals_of
from tritonstack_local.autoscaling.records import (
    ActivityRecord,
    AutoScalingTables,
    Cooldown,
    PolicyRecord,
    TargetId,
    TargetRecord,
)
from tritonstack_local.autoscaling.tracking_alarms import policy_arn_in
from tritonstack_local.cloudwatch.alarms.records import AlarmRecord
from tritonstack_local.sagemaker.control_plane.endpoints import VariantCapacity
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import Fields
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

_LOOKS_A_MINUTE = 6
_SHORTEST_PAUSE_S = 0.05

log = logging.getLogger(__name__)

ReadScopedAlarm = Callable[[Scope, str], AlarmReading | None]


class ScaledEndpoints(Protocol):
    """SageMaker's part of scaling."""

    def capacity_of(self, scope: Scope, endpoint: str, variant: str) -> VariantCapacity | None:
        """Return the capacity of a variant; None if it does not exist."""

    def update_weights_and_capacities(self, scope: Scope, request: Fields) -> Fields:
        """Start to scale variants, or raise ServiceError."""


class Scaler:
    """Scales all targets of all scopes in one thread. Call `resume` first, then `start`."""

    def __init__(
        self,
        *,
        store: AutoScalingTables,
        history: History,
        endpoints: ScaledEndpoints,
        read_alarm: ReadScopedAlarm,
        remove_target: Callable[[Scope, TargetId], None],
        time_scale: TimeScale,
    ) -> None:
        self._store = store
        self._history = history
        self._endpoints = endpoints
        self._read_alarm = read_alarm
        self._remove_target = remove_target
        self._time_scale = time_scale
        self._calendars = Calendars(store=store, history=history, time_scale=time_scale)
        self._triggered: list[tuple[Scope, PolicyRecord, str]] = []
        self._running: dict[tuple[Scope, str], str] = {}
        """The activity in progress of each target."""
        self._retries: dict[tuple[Scope, str], float] = {}
        """When to try again to bring a capacity between its limits."""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="auto scaling", daemon=True)

    def resume(self) -> None:
        """Find the activities that an earlier cloud left in progress."""
        for scope, activity in self._store.activities.everywhere():
            if activity.running:
                self._running[scope, activity.target.name] = activity.name

    def start(self) -> None:
        """Begin to scale."""
        self._thread.start()

    def close(self) -> None:
        """Stop; the next cloud resumes activities in progress."""
        self._ended.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def alarmed(self, alarm: AlarmRecord, action: str) -> str | None:
        """Note that an alarm triggers a policy; return why it does not."""
        arn = policy_arn_in(action)
        policy = next((item for item in self._store.policies.within(alarm.scope) if item.arn == arn), None)
        if policy is None:
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
            by_target[scope, policy.target.name].append((policy, alarm))
        for scope, target in self._store.targets.everywhere():
            try:
                self._look_at(scope, target, by_target[scope, target.name], now)
            except Exception:  # an error in one target must not stop the others
                log.exception("scaling %s", target.id.resource)
        self._forget()

    def _run(self) -> None:
        pause = max(_SHORTEST_PAUSE_S, self._time_scale.lasting(REAL_MINUTE_S) / _LOOKS_A_MINUTE)
        while not self._ended.is_set():
            self._woken.wait(pause)
            self._woken.clear()
            if not self._ended.is_set():
                self.look(time.time())

    def _look_at(self, scope: Scope, target: TargetRecord, triggered: list[Triggered], now: float) -> None:
        self._calendars.run(scope, target, now)
        if target.id.variant is None:
            return
        capacity = self._endpoints.capacity_of(scope, *target.id.variant)
        if capacity is None:
            self._abandon(scope, target.name, "The endpoint or its variant no longer exists.")
            if target.attached:
                log.info("%s is gone: deregistering it", target.id.resource)
                self._remove_target(scope, target.id)
            return
        if not target.attached:
            self._change(scope, target, lambda record: replace(record, attached=True))
        self._follow(scope, target, capacity, now)
        current = self._store.targets.get(scope, target.name)
        if current is None or (scope, target.name) in self._running or capacity.status != "InService":
            return
        if current.due and self._retries.get((scope, target.name), 0.0) <= now:
            self._limit(scope, current, capacity, now)
        elif triggered:
            self._scale(scope, current, triggered, capacity, now)

    def _forget(self) -> None:
        """Drop what is known of targets and schedules that no longer exist, and end their activities."""
        targets = {(scope, target.name) for scope, target in self._store.targets.everywhere()}
        for scope, name in self._running.keys() - targets:
            self._abandon(scope, name, "The scalable target was deregistered.")
        self._retries = {key: at for key, at in self._retries.items() if key in targets}
        self._calendars.forget()

    def _abandon(self, scope: Scope, target: str, reason: str) -> None:
        """Fail the activity in progress of a target whose outcome can no longer be observed."""
        activity = self._store.activities.get(scope, self._running.pop((scope, target), ""))
        if activity is not None:
            self._history.move(scope, activity, "Failed", words.failed(activity, reason), None)

    def _limit(self, scope: Scope, target: TargetRecord, capacity: VariantCapacity, now: float) -> None:
        """Bring a capacity between its limits."""
        count = within_limits(capacity.desired, minimum=target.minimum, maximum=target.maximum)
        if count == capacity.desired:
            self._change(scope, target, lambda record: _no_longer_due(record, target))
            return
        self._retries[scope, target.name] = now + self._time_scale.lasting(REAL_MINUTE_S)
        activity = words.limits_activity(target.id, count, base=capacity.desired)
        self._begin(scope, target, activity, capacity, now)

    def _scale(
        self,
        scope: Scope,
        target: TargetRecord,
        triggered: list[Triggered],
        capacity: VariantCapacity,
        now: float,
    ) -> None:
        cooldown = target.cooldown
        situation = Situation(
            capacity=capacity.desired,
            minimum=target.minimum,
            maximum=target.maximum,
            cooldown=cooldown if cooldown is not None and now < cooldown.ends else None,
            out_suspended=target.suspends("DynamicScalingOutSuspended"),
            in_suspended=target.suspends("DynamicScalingInSuspended"),
        )
        tracking = [
            policy
            for policy in self._store.policies.within(scope)
            if policy.target == target.id and policy.kind == TRACKING
        ]
        proposals = proposals_of(triggered, tracking, lambda name: self._read_alarm(scope, name), situation)
        decision = decide(situation, list(proposals))
        if decision is None:
            return
        if decision.reason is None:
            activity = words.scaling_activity(target.id, decision, base=capacity.desired)
            self._begin(scope, target, activity, capacity, now)
            return
        # As on AWS, a repeated reason is recorded once.
        last, entry = self._history.last(scope, target.id), words.not_scaled(target.id, decision)
        if last is None or last.reasons != entry.reasons:
            self._history.add(scope, entry)

    def _begin(
        self,
        scope: Scope,
        target: TargetRecord,
        activity: ActivityRecord,
        capacity: VariantCapacity,
        now: float,
    ) -> None:
        log.info("%s: %s %s", target.id.resource, activity.description, activity.cause)
        self._history.add(scope, activity)
        self._running[scope, target.name] = activity.name
        self._follow(scope, target, capacity, now)

    def _follow(self, scope: Scope, target: TargetRecord, capacity: VariantCapacity, now: float) -> None:
        """Move the activity in progress of a target on; also one of an earlier cloud."""
        activity = self._store.activities.get(scope, self._running.get((scope, target.name), ""))
        if activity is None:
            self._running.pop((scope, target.name), None)
            return
        is_set = capacity.desired == activity.wanted
        if activity.status == "Pending" and (is_set or capacity.settled):
            self._send(scope, target, activity, is_set=is_set)
        elif activity.status == "InProgress" and capacity.settled:
            failure = capacity.failure or "The endpoint has another instance count." if not is_set else None
            self._end(scope, target, activity, failure=failure, capacity=capacity, now=now)

    def _send(self, scope: Scope, target: TargetRecord, activity: ActivityRecord, *, is_set: bool) -> None:
        endpoint, variant = target.id.variant or ("", "")
        variant_capacity = {"VariantName": variant, "DesiredInstanceCount": activity.wanted}
        try:
            if not is_set:  # an earlier cloud may have sent it
                self._endpoints.update_weights_and_capacities(
                    scope, {"EndpointName": endpoint, "DesiredWeightsAndCapacities": [variant_capacity]}
                )
        except ServiceError as error:
            message = words.failed(activity, f"{error.message} (Service: AmazonSageMaker; {error.code})")
            self._history.move(scope, activity, "Failed", message, None)
            self._running.pop((scope, target.name), None)
            return
        self._history.move(scope, activity, "InProgress", words.accepted(activity), None)

    def _end(
        self,
        scope: Scope,
        target: TargetRecord,
        activity: ActivityRecord,
        *,
        failure: str | None,
        capacity: VariantCapacity,
        now: float,
    ) -> None:
        if failure is None:
            self._retries.pop((scope, target.name), None)
            cooldown = self._cooldown(activity, now)
            if cooldown is not None:
                self._change(scope, target, lambda record: replace(record, cooldown=cooldown))
            self._history.move(scope, activity, "Successful", words.fulfilled(activity), capacity.shortage)
        else:
            self._history.move(scope, activity, "Failed", words.failed(activity, failure), None)
        self._running.pop((scope, target.name), None)

    def _cooldown(self, activity: ActivityRecord, now: float) -> Cooldown | None:
        if activity.cooldown_s is None or activity.wanted is None:
            return None
        return Cooldown(
            direction="out" if activity.wanted > activity.base else "in",
            base=activity.base,
            ends=now + self._time_scale.lasting(activity.cooldown_s),
        )

    def _change(
        self, scope: Scope, target: TargetRecord, step: Callable[[TargetRecord], TargetRecord]
    ) -> None:
        self._store.targets.change(scope, target.name, step)


def _no_longer_due(record: TargetRecord, earlier: TargetRecord) -> TargetRecord:
    """End what was due, unless the limits have changed since."""
    same = (record.minimum, record.maximum) == (earlier.minimum, earlier.maximum)
    return replace(record, due=False) if same else record
