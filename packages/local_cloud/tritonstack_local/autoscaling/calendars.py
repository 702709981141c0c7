"""Run the scheduled actions of a target, at the pace of the cloud.

The calendar of an action starts when the action is put, and a minute in it lasts as long as a minute of the
cloud: at the default scale, `rate(10 minutes)` acts every ten seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from zoneinfo import ZoneInfo

from tritonstack_local.autoscaling.history import History, schedule_activity
from tritonstack_local.autoscaling.records import AutoScalingTables, ScheduledRecord, TargetRecord
from tritonstack_local.autoscaling.schedules import calendar_time, parse_schedule
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale


class Calendars:
    """Finds due actions and sets the limits of their targets. For one thread."""

    def __init__(self, *, store: AutoScalingTables, history: History, time_scale: TimeScale) -> None:
        self._store = store
        self._history = history
        self._time_scale = time_scale
        self._looked: dict[tuple[Scope, str], tuple[float, float]] = {}
        """Start of a calendar, and the time in it until which nothing is due: kept in memory only."""

    def run(self, scope: Scope, target: TargetRecord, now: float) -> None:
        """Run what is due. After an interruption, each action runs once, for its last time."""
        due = [
            (self._real_time(record, at), at, record)
            for record in self._store.scheduled.within(scope)
            if record.target == target.id and (at := self._due(scope, record, now)) is not None
        ]
        for _, at, record in sorted(due, key=lambda item: item[0]):
            self._apply(scope, target, record)
            self._store.scheduled.change(scope, record.name, partial(_done, at=at))

    def forget(self) -> None:
        """Drop what is known of actions that no longer exist."""
        actions = {(scope, record.name) for scope, record in self._store.scheduled.everywhere()}
        self._looked = {key: looked for key, looked in self._looked.items() if key in actions}

    def _due(self, scope: Scope, record: ScheduledRecord, now: float) -> float | None:
        until = calendar_time(now, since=record.since, minute_s=self._time_scale.minute_s)
        since, looked = self._looked.get((scope, record.name), (record.since, 0.0))
        after = max(record.done, looked if since == record.since else 0.0)
        start = record.since if record.start is None else record.start
        if start > record.since:
            after = max(after, start - 1)
        if record.end is not None:
            until = min(until, record.end)
        if until <= after:
            return None
        self._looked[scope, record.name] = record.since, until
        zone = ZoneInfo(record.timezone or "UTC")
        return parse_schedule(record.schedule).latest(zone, after=after, until=until, start=start)

    def _real_time(self, record: ScheduledRecord, at: float) -> float:
        return record.since + self._time_scale.lasting(at - record.since)

    def _apply(self, scope: Scope, target: TargetRecord, record: ScheduledRecord) -> None:
        if target.suspends("ScheduledScalingSuspended"):
            return
        failure: str | None = None

        def limited(current: TargetRecord) -> TargetRecord:
            nonlocal failure
            low, high = _limits(current, record.limits)
            failure = f"Minimum capacity {low} exceeds maximum capacity {high}" if low > high else None
            return current if failure else replace(current, minimum=low, maximum=high, due=True)

        self._store.targets.change(scope, target.name, limited)
        self._history.add(scope, schedule_activity(target.id, record.action, record.limits, failure=failure))


def _done(record: ScheduledRecord, *, at: float) -> ScheduledRecord:
    return replace(record, done=at)


def _limits(target: TargetRecord, limits: Mapping[str, int]) -> tuple[int, int]:
    return limits.get("MinCapacity", target.minimum), limits.get("MaxCapacity", target.maximum)
