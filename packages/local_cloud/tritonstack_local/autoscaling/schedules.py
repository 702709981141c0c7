"""Schedule expressions of scheduled actions: `at`, `rate`, and `cron`, in a time zone.

https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-using-cron-expressions.html
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_MINUTE_S = 60
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_YEARS = (1970, 2199)
_FIELDS = 6

DayRule = Callable[[date], bool]


class ScheduleError(Exception):
    """An invalid schedule expression; the message gives the reason."""


@dataclass(frozen=True)
class AtSchedule:
    """Once, at a local time."""

    moment: datetime

    def latest(self, zone: ZoneInfo, *, after: float, until: float, start: float) -> float | None:
        """Return its time, if it is within the interval."""
        del start
        return _within(self.moment.replace(tzinfo=zone).timestamp(), after, until)


@dataclass(frozen=True)
class RateSchedule:
    """Every so many seconds from its start."""

    period_s: int

    def latest(self, zone: ZoneInfo, *, after: float, until: float, start: float) -> float | None:
        """Return the last multiple of the period within the interval."""
        del zone
        periods = int((until - start) // self.period_s)
        return _within(start + periods * self.period_s, after, until) if periods >= 1 else None


@dataclass(frozen=True)
class CronSchedule:
    """At the given minutes and hours of matching days."""

    times: tuple[time, ...]
    """In ascending order."""
    months: frozenset[int]
    years: frozenset[int]
    days: DayRule
    """Whether a day of the month and its weekday match."""

    def latest(self, zone: ZoneInfo, *, after: float, until: float, start: float) -> float | None:
        """Return the last matching time within the interval."""
        del start
        day, first = datetime.fromtimestamp(until, zone).date(), datetime.fromtimestamp(after, zone).date()
        while day >= first:
            if day.year in self.years and day.month in self.months and self.days(day):
                for moment in reversed(self.times):
                    at = datetime.combine(day, moment, zone).timestamp()
                    if after < at <= until:
                        return at
            day -= timedelta(days=1)
        return None


Schedule = AtSchedule | RateSchedule | CronSchedule


def _within(at: float, after: float, until: float) -> float | None:
    return at if after < at <= until else None


def parse_schedule(text: str) -> Schedule:
    """Read a schedule expression, or raise ScheduleError."""
    match = re.fullmatch(r"(at|rate|cron)\((.*)\)", text.strip())
    if match is None:
        raise ScheduleError(f"{text!r} is none of at(...), rate(...), cron(...)")
    kind, inner = match.groups()
    return _KINDS[kind](inner.strip())


def _at(text: str) -> AtSchedule:
    try:
        return AtSchedule(datetime.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError as error:
        raise ScheduleError(f"{text!r} is not a time in the form yyyy-mm-ddThh:mm:ss") from error


def _rate(text: str) -> RateSchedule:
    match = re.fullmatch(r"([1-9]\d*) (minute|hour|day)s?", text)
    if match is None:
        raise ScheduleError(f"{text!r} is not a positive number and minutes, hours, or days")
    return RateSchedule(int(match[1]) * _UNITS[match[2]])


def _cron(text: str) -> CronSchedule:
    fields = text.upper().split()
    if len(fields) != _FIELDS:
        raise ScheduleError(f"{text!r} has {len(fields)} fields instead of {_FIELDS}")
    minutes, hours, days, months, weekdays, years = fields
    if (days == "?") == (weekdays == "?"):
        sets = "neither" if days == "?" else "both"
        raise ScheduleError(
            f"{text!r} sets {sets} of Day_of_Month and Day_of_Week; exactly one of them must be ?"
        )
    return CronSchedule(
        times=tuple(time(h, m) for h in sorted(_set(hours, 0, 23)) for m in sorted(_set(minutes, 0, 59))),
        months=_set(months, 1, 12, _MONTHS),
        years=_set(years, *_YEARS),
        days=_of_month(days) if weekdays == "?" else _of_week(weekdays),
    )


_KINDS: Mapping[str, Callable[[str], Schedule]] = {"at": _at, "rate": _rate, "cron": _cron}


def _set(field: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    """Read numbers, ranges, and steps, such as `1,3-5,0/15`."""
    values: set[int] = set()
    for item in field.split(","):
        body, _, step = item.partition("/")
        first, dash, last = body.partition("-")
        begin = low if body == "*" else _number(first, low, high, names)
        whole = body == "*" or bool(step and not dash)
        end = high if whole else _number(last if dash else first, low, high, names)
        if step and not re.fullmatch(r"[1-9]\d*", step):
            raise ScheduleError(f"{item!r} has an invalid step")
        if begin > end:
            raise ScheduleError(f"{item!r} ends before it begins")
        values |= set(range(begin, end + 1, int(step or 1)))
    return frozenset(values)


def _number(text: str, low: int, high: int, names: tuple[str, ...]) -> int:
    value = names.index(text) + low if text in names else int(text) if text.isdecimal() else None
    if value is None or not low <= value <= high:
        raise ScheduleError(f"{text!r} is not between {low} and {high}")
    return value


def _of_month(field: str) -> DayRule:
    if field == "L":
        return lambda day: day.day == _length(day)
    if field == "LW":
        return lambda day: day == _nearest_weekday(day.replace(day=_length(day)))
    if match := re.fullmatch(r"(\d+)W", field):
        number = _number(match[1], 1, 31, ())
        return lambda day: day == _nearest_weekday(day.replace(day=min(number, _length(day))))
    numbers = _set(field, 1, 31)
    return lambda day: day.day in numbers


def _of_week(field: str) -> DayRule:
    if match := re.fullmatch(r"(\w+)#([1-5])", field):
        number, week = _number(match[1], 1, 7, _WEEKDAYS), int(match[2])
        return lambda day: _weekday(day) == number and (day.day - 1) // 7 + 1 == week
    if match := re.fullmatch(r"(\w+)L", field):
        last = _number(match[1], 1, 7, _WEEKDAYS)
        return lambda day: _weekday(day) == last and day.day + 7 > _length(day)
    numbers = _set("SAT" if field == "L" else field, 1, 7, _WEEKDAYS)
    return lambda day: _weekday(day) in numbers


def _weekday(day: date) -> int:
    """Return the number of a day of the week; Sunday is 1."""
    return day.isoweekday() % 7 + 1


def _length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date) -> date:
    """Return the closest weekday in the same month."""
    candidates: Iterable[date] = (
        day + timedelta(days=shift)
        for shift in (0, -1, 1, 2, -2)
        if (day + timedelta(days=shift)).month == day.month
    )
    return next(candidate for candidate in candidates if candidate.isoweekday() <= 5)


def calendar_time(now: float, *, since: float, minute_s: float) -> float:
    """Return the time of a calendar that starts at `since` and whose minutes last `minute_s` seconds."""
    return since + (now - since) * _MINUTE_S / minute_s
