"""When schedules change the limits of the instance count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tritonstack.constructs.endpoint.scaling_plan import ScheduledLimits
from tritonstack.spec.endpoints.scaling import DAYS

_WEEK = timedelta(days=8)


@dataclass(frozen=True)
class LimitChange:
    """New limits from a second of the simulation on."""

    at: float
    minimum: int
    maximum: int
    name: str


def limit_changes(
    scheduled: Sequence[ScheduledLimits], *, begin: datetime, seconds: float
) -> tuple[LimitChange, ...]:
    """Return the changes of a period; the first is that which is in force at its begin, if any."""
    changes = sorted(
        (change for limits in scheduled for change in _occurrences(limits, begin, seconds)),
        key=lambda change: change.at,
    )
    earlier = [change for change in changes if change.at <= 0]
    return (*earlier[-1:], *(change for change in changes if change.at > 0))


def _occurrences(limits: ScheduledLimits, begin: datetime, seconds: float) -> Iterator[LimitChange]:
    minute, hour, _, _, days, _ = limits.schedule.removeprefix("cron(").removesuffix(")").split()
    zone, weekdays = ZoneInfo(limits.timezone), {DAYS.index(day) for day in days.split(",")}
    day = (begin - _WEEK).astimezone(zone).date()
    last = (begin + timedelta(seconds=seconds)).astimezone(zone).date()
    while day <= last:
        if day.weekday() in weekdays:
            when = datetime.combine(day, time(int(hour), int(minute)), zone).astimezone(UTC)
            at = (when - begin).total_seconds()
            if at < seconds:
                yield LimitChange(at, limits.minimum, limits.maximum, limits.name)
        day += timedelta(days=1)
