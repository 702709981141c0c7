"""Compute when an environment's change windows open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from tritonstack.spec.environments.promotion import DAYS, ChangeWindow


def next_opening(windows: Sequence[ChangeWindow], now: datetime) -> datetime | None:
    """Return when the next window opens, in UTC; None if none does within two weeks."""
    openings = [opening for window in windows for opening in _openings(window, now)]
    return min(openings, default=None)


def _openings(window: ChangeWindow, now: datetime) -> Iterator[datetime]:
    """Yield the times at which a window opens in the next days.

    If the start time is skipped because clocks go forward, the window opens when they do. If it occurs twice
    because clocks go back, the first occurrence counts.
    """
    zone = ZoneInfo(window.timezone)
    hour, minute = map(int, window.start.split(":"))
    today = now.astimezone(zone).date()
    for ahead in range(15):
        day = today + timedelta(days=ahead)
        if DAYS[day.weekday()] not in window.days:
            continue
        local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
        first, second = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
        # A time that clocks leave out is before the change with one offset, and after it with the other.
        is_skipped = second < first
        for opening in (_next_change(second, zone),) if is_skipped else (first, second):
            if opening > now and window.is_open(opening):
                yield opening


def _next_change(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return when clocks change next, to the minute."""
    offset = moment.astimezone(zone).utcoffset()
    while moment.astimezone(zone).utcoffset() == offset:
        moment += timedelta(minutes=1)
    return moment
