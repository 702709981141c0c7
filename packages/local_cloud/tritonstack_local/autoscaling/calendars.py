"""Scheduled actions: on days of the week, at a time of day, in a time zone.

The calendar of an action starts when the action is put, and a minute in it lasts as long as a minute of the
cloud: at the default scale, a day passes in 24 minutes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tritonstack_local.autoscaling.records import NAMESPACE, ScheduledRecord, TargetId
from tritonstack_local.autoscaling.requests import OTHER_SCHEDULES, START_AND_END, rejection
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.wire import Fields
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY = rf"(?:{'|'.join(_DAYS)})"
_CRON = re.compile(
    r"cron\((?P<minute>[0-5]?\d) (?P<hour>[01]?\d|2[0-3]) "
    rf"(?:\* \* \?|\? \* (?P<days>\*|{_DAY}(?:,{_DAY})*)) \*\)"
)


def read_action(
    scope: Scope, target: TargetId, request: Fields, before: ScheduledRecord | None, now: float
) -> ScheduledRecord:
    """Return the action that a request puts in the place of another one, if any; its calendar starts now."""
    if request.keys() & {"StartTime", "EndTime"}:
        raise rejection(START_AND_END)
    name = request["ScheduledActionName"]
    place = f"scheduledAction:{NAMESPACE}/{target.resource}:scheduledActionName/{name}"
    new = {
        "ScheduledActionName": name,
        "ScheduledActionARN": scope.arn("autoscaling", place),
        "ScalableTargetAction": {},
        "CreationTime": datetime.now(UTC),
    }
    changes = ("Schedule", "Timezone", "ScalableTargetAction")
    fields = (new if before is None else dict(before.fields)) | {
        field: request[field] for field in changes if request.get(field)
    }
    if "Schedule" not in fields:
        raise validation_exception("Schedule must be specified to create a scheduled action")
    if _CRON.fullmatch(fields["Schedule"]) is None:
        raise rejection(OTHER_SCHEDULES)
    try:
        ZoneInfo(fields.get("Timezone", "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise validation_exception(f"Timezone {fields['Timezone']!r} is not a known time zone") from error
    limits = fields["ScalableTargetAction"]
    if limits.get("MinCapacity", 0) > limits.get("MaxCapacity", float("inf")):
        raise validation_exception("Maximum capacity cannot be less than minimum capacity")
    return ScheduledRecord(target=target, fields=fields, since=now, done=now)


def due_time(record: ScheduledRecord, now: float, time_scale: TimeScale) -> float | None:
    """Return the last time in the action's calendar for which it has not run, if that has passed."""
    until = record.since + (now - record.since) * REAL_MINUTE_S / time_scale.minute_s
    return latest_time(record.fields, after=record.done, until=until)


def latest_time(fields: Mapping[str, Any], *, after: float, until: float) -> float | None:
    """Return the last time of a schedule within an interval, if there is one."""
    match, zone = _CRON.fullmatch(fields["Schedule"]), ZoneInfo(fields.get("Timezone", "UTC"))
    if match is None:
        return None
    days = _DAYS if match["days"] in (None, "*") else match["days"].split(",")
    moment = time(int(match["hour"]), int(match["minute"]))
    first, day = (datetime.fromtimestamp(at, zone).date() for at in (after, until))
    while day >= first:
        at = datetime.combine(day, moment, zone).timestamp()
        if _DAYS[day.weekday()] in days and after < at <= until:
            return at
        day -= timedelta(days=1)
    return None
