"""Schedules in time zones, at the pace of the cloud."""

from datetime import UTC, datetime

import pytest

from tritonstack_local.autoscaling.records import ScheduledRecord
from tritonstack_local.autoscaling.requests import due_time, latest_time
from tritonstack_local.settings import TimeScale

WEDNESDAY = datetime(2026, 1, 14, 12, tzinfo=UTC)
SPRING = datetime(2026, 3, 28, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "zone", "since", "until", "expected"),
    [
        ("cron(30 8 ? * MON,FRI *)", "UTC", WEDNESDAY, (1, 21), ["01-16 08:30", "01-19 08:30"]),
        ("cron(0 22 ? * SAT,SUN *)", "Asia/Tokyo", WEDNESDAY, (1, 21), ["01-17 13:00", "01-18 13:00"]),
        ("cron(0 12 * * ? *)", "UTC", WEDNESDAY, (1, 16), ["01-15 12:00"]),
        ("cron(5 06 ? * * *)", "UTC", WEDNESDAY, (1, 16), ["01-15 06:05"]),
        ("cron(0 8 ? * WED *)", "UTC", WEDNESDAY, (1, 21), []),
        ("cron(0 8 ? * * *)", "Europe/Berlin", SPRING, (3, 30), ["03-28 07:00", "03-29 06:00"]),
    ],
)
def test_times_of_a_schedule(expression, zone, since, until, expected):
    fields, times = {"Schedule": expression, "Timezone": zone}, []
    end = datetime(2026, *until, tzinfo=UTC).timestamp()
    while (at := latest_time(fields, after=since.timestamp(), until=end)) is not None:
        times.insert(0, datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M"))
        end = at - 1
    assert times == expected


def test_a_calendar_runs_at_the_pace_of_the_cloud():
    noon = WEDNESDAY.timestamp()
    fields = {"Schedule": "cron(10 12 * * ? *)"}
    record = ScheduledRecord(resource="", fields=fields, since=noon, done=noon)
    assert [due_time(record, noon + after_s, TimeScale(minute_s=1.0)) for after_s in (9.9, 10.1)] == [
        None,
        noon + 600,
    ]
    assert due_time(record, noon + 10.1, TimeScale(minute_s=60.0)) is None
