"""Read scheduled actions, and run them at the pace of the cloud.

The calendar of an action starts when the action is put, and a minute in it lasts as long as a minute of the
cloud: at the default scale, `rate(10 minutes)` acts every ten seconds.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tritonstack_local.autoscaling.history import History, schedule_activity
from tritonstack_local.autoscaling.records import (
    NAMESPACE,
    AutoScalingTables,
    ScheduledRecord,
    TargetId,
    TargetRecord,
)
from tritonstack_local.autoscaling.schedules import ScheduleError, calendar_time, parse_schedule
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.wire import Fields
from tritonstack_local.settings import TimeScale


def read_action(
    scope: Scope, target: TargetId, request: Fields, before: ScheduledRecord | None, now: float
) -> ScheduledRecord:
    """Return the action that a request puts in the place of another one, if any; its calendar starts now."""
    name = request["ScheduledActionName"]
    place = f"scheduledAction:{NAMESPACE}/{target.resource}:scheduledActionName/{name}"
    new = {
        "ScheduledActionName": name,
        "ScheduledActionARN": scope.arn("autoscaling", place),
        "ScalableTargetAction": {},
        "CreationTime": datetime.now(UTC),
    }
    changes = {
        field: request[field]
        for field in ("Schedule", "Timezone", "ScalableTargetAction")
        if request.get(field)
    }
    # As on AWS, start and end times that are not given are deleted.
    times = {field: _utc(request.get(field)) for field in ("StartTime", "EndTime")}
    fields = (new if before is None else dict(before.fields)) | changes | times
    if "Schedule" not in fields:
        raise validation_exception("Schedule must be specified to create a scheduled action")
    _check(fields)
    return ScheduledRecord(target=target, fields=fields, since=now, done=now)


def _check(fields: Fields) -> None:
    timezone, limits = fields.get("Timezone"), fields["ScalableTargetAction"]
    try:
        parse_schedule(fields["Schedule"])
        ZoneInfo(timezone or "UTC")
    except ScheduleError as error:
        raise validation_exception(f"Schedule expression is invalid: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise validation_exception(f"Timezone {timezone!r} is not a known time zone") from error
    if limits.get("MinCapacity", 0) > limits.get("MaxCapacity", float("inf")):
        raise validation_exception("Maximum capacity cannot be less than minimum capacity")
    start, end = fields["StartTime"], fields["EndTime"]
    if start is not None and end is not None and end <= start:
        raise validation_exception("EndTime must be after StartTime")


def _utc(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


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
            (record.since + self._time_scale.lasting(at - record.since), at, record)
            for record in self._store.scheduled.within(scope)
            if record.target == target.target and (at := self._due(scope, record, now)) is not None
        ]
        for _, at, record in sorted(due, key=lambda item: item[0]):
            self._apply(scope, target, record)
            self._store.scheduled.change(scope, record.name, partial(replace, done=at))

    def _due(self, scope: Scope, record: ScheduledRecord, now: float) -> float | None:
        fields, key = record.fields, (scope, record.name)
        start, end = (
            None if fields[name] is None else fields[name].timestamp() for name in ("StartTime", "EndTime")
        )
        start = start or record.since
        until = calendar_time(now, since=record.since, minute_s=self._time_scale.minute_s)
        since, looked = self._looked.get(key, (record.since, 0.0))
        after = max(record.done, looked if since == record.since else 0.0)
        if start > record.since:
            after = max(after, start - 1)
        if end is not None:
            until = min(until, end)
        if until <= after:
            return None
        self._looked[key] = record.since, until
        zone = ZoneInfo(fields.get("Timezone") or "UTC")
        return parse_schedule(fields["Schedule"]).latest(zone, after=after, until=until, start=start)

    def _apply(self, scope: Scope, target: TargetRecord, record: ScheduledRecord) -> None:
        if target.suspends("ScheduledScalingSuspended"):
            return
        limits, failure = record.fields["ScalableTargetAction"], None

        def limited(current: TargetRecord) -> TargetRecord:
            nonlocal failure
            changed = replace(current, fields={**current.fields, **limits}, due=0.0)
            low, high = changed.limits
            failure = f"Minimum capacity {low} exceeds maximum capacity {high}" if low > high else None
            return current if failure else changed

        self._store.targets.change(scope, target.name, limited)
        action = record.fields["ScheduledActionName"]
        self._history.add(scope, schedule_activity(target.target, action, limits, failure=failure))
