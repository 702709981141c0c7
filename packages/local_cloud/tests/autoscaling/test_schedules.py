"""Schedule expressions in time zones."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tritonstack_local.autoscaling.schedules import ScheduleError, calendar_time, parse_schedule

WEDNESDAY = datetime(2026, 1, 14, 12, tzinfo=UTC)


def times(expression, *, since, until, zone="UTC"):
    """Return all times of an expression in an interval, oldest first."""
    schedule, found = parse_schedule(expression), []
    start, after = since.timestamp(), since.timestamp()
    moment = until.timestamp()
    while (at := schedule.latest(ZoneInfo(zone), after=after, until=moment, start=start)) is not None:
        found.append(datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M"))
        moment = at - 1
    return found[::-1]


@pytest.mark.parametrize(
    ("expression", "zone", "expected"),
    [
        ("at(2026-01-15T08:30:00)", "UTC", ["01-15 08:30"]),
        ("at(2026-01-15T08:30:00)", "Europe/Berlin", ["01-15 07:30"]),
        ("at(2026-01-14T12:00:00)", "UTC", []),
        ("rate(2 days)", "UTC", ["01-16 12:00", "01-18 12:00", "01-20 12:00"]),
        ("cron(30 8 ? * MON-FRI *)", "UTC", ["01-15 08:30", "01-16 08:30", "01-19 08:30", "01-20 08:30"]),
        ("cron(0 22 ? * SAT,SUN *)", "Asia/Tokyo", ["01-17 13:00", "01-18 13:00"]),
        ("cron(0/30 9 15 JAN ? 2026)", "UTC", ["01-15 09:00", "01-15 09:30"]),
        ("cron(0 0 ? * THU-FRI,SUN *)", "UTC", ["01-15 00:00", "01-16 00:00", "01-18 00:00"]),
        ("cron(0 6 ? * 3#3 *)", "UTC", ["01-20 06:00"]),
        ("cron(0 6 17W * ? *)", "UTC", ["01-16 06:00"]),
        ("cron(15,45 6-7 20 1 ? *)", "UTC", ["01-20 06:15", "01-20 06:45", "01-20 07:15", "01-20 07:45"]),
        ("cron(0 6 ? * 1 2027)", "UTC", []),
    ],
)
def test_expressions_in_their_time_zone(expression, zone, expected):
    assert times(expression, since=WEDNESDAY, until=datetime(2026, 1, 21, tzinfo=UTC), zone=zone) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("cron(0 0 L * ? *)", ["01-31", "02-28"]),
        ("cron(0 0 LW * ? *)", ["01-30", "02-27"]),
        ("cron(0 0 ? * 6L *)", ["01-30", "02-27"]),
        ("cron(0 0 31W * ? *)", ["01-30", "02-27"]),
    ],
)
def test_last_days(expression, expected):
    found = times(expression, since=WEDNESDAY, until=datetime(2026, 3, 5, tzinfo=UTC))
    assert [text.split()[0] for text in found] == expected


def test_a_time_of_day_follows_daylight_saving_time():
    found = times(
        "cron(0 8 ? * * *)",
        since=datetime(2026, 3, 28, 0, tzinfo=UTC),
        until=datetime(2026, 3, 29, 23, tzinfo=UTC),
        zone="Europe/Berlin",
    )
    assert found == ["03-28 07:00", "03-29 06:00"]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("every day", "none of at"),
        ("at(2026-01-15 08:30)", "not a time"),
        ("rate(0 minutes)", "positive number"),
        ("rate(5 seconds)", "positive number"),
        ("cron(0 8 ? * MON)", "5 fields"),
        ("cron(0 8 * * * *)", "sets both of Day_of_Month and Day_of_Week; exactly one of them must be"),
        ("cron(0 8 1 * MON *)", "sets both of"),
        ("cron(0 8 ? * ? *)", "sets neither of"),
        ("cron(0 8 ?,1 * ? *)", "is not between"),
        ("cron(60 8 ? * MON *)", "'60' is not between 0 and 59"),
        ("cron(0 8 ? * MOON *)", "'MOON' is not between"),
        ("cron(0 8 ? * MON-SUN *)", "'MON-SUN' ends before it begins"),
        ("cron(0/x 8 ? * MON *)", "invalid step"),
    ],
)
def test_invalid_expressions_are_rejected(expression, message):
    with pytest.raises(ScheduleError, match=message):
        parse_schedule(expression)


def test_a_calendar_runs_at_the_pace_of_the_cloud():
    assert calendar_time(1010, since=1000, minute_s=1) == 1600
    assert calendar_time(1010, since=1000, minute_s=60) == 1010
