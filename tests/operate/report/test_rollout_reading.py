"""Rollouts: what is read from CloudFormation and CloudWatch, by age."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tests.operate.strict_aws import OnePage, checked
from tritonstack.operate.report.rollout_history import AlarmPeriod, PastRollout, rollouts_of
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.verify.expectations import ExpectedEndpoint

START = datetime(2026, 11, 26, 9, tzinfo=UTC)
END = START + timedelta(minutes=20)
ALARM = "search-latency"
SEARCH = ExpectedEndpoint(
    name="search",
    properties={"DeploymentConfig": {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": ALARM}]}}},
    config={},
    variants={"main": {}},
    shadows=frozenset(),
    models={},
    component=None,
    targets={},
    policies={},
    alarms={},
    names={},
    not_compared={},
)


class Aws:
    """CloudFormation and CloudWatch with one rollout and one alarm; every call is checked."""

    def __init__(self) -> None:
        self.events = [_event("3", "UPDATE_COMPLETE", END), _event("2", "UPDATE_IN_PROGRESS", START)]
        self.changes: list[tuple[datetime, str]] = []
        self.alarms: list[dict[str, Any]] = [_alarm("OK", START - timedelta(days=200))]

    def client(self, service: str) -> Any:
        return _Client(self, service)

    def describe_stack_events(self, **_: Any) -> dict[str, Any]:
        return {"StackEvents": self.events}

    def get_metric_data(self, **parameters: Any) -> dict[str, Any]:
        (period,) = {query["MetricStat"]["Period"] for query in parameters["MetricDataQueries"]}
        results = [
            {"Id": query["Id"], "Timestamps": [START], "Values": [period * 2.0]}
            for query in parameters["MetricDataQueries"]
        ]
        return {"MetricDataResults": results}

    def describe_alarm_history(self, **parameters: Any) -> dict[str, Any]:
        assert parameters["ScanBy"] == "TimestampAscending"
        until = parameters.get("EndDate", datetime.max.replace(tzinfo=UTC))
        items = [
            {"Timestamp": at, "HistorySummary": f"Alarm updated from {change}"}
            for at, change in self.changes
            if parameters["StartDate"] <= at <= until
        ]
        return {"AlarmHistoryItems": items}

    def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        return {}

    def describe_alarms(self, **parameters: Any) -> dict[str, Any]:
        assert parameters["AlarmNames"] == [ALARM]
        return {"MetricAlarms": self.alarms}


class _Client:
    def __init__(self, aws: Aws, service: str) -> None:
        self._aws, self._service = aws, service

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = "".join(part.title() for part in name.split("_"))

        def call(**parameters: Any) -> dict[str, Any]:
            parameters.pop("PaginationConfig", None)
            checked(self._service, operation, parameters)
            answer: dict[str, Any] = getattr(self._aws, name)(**parameters)
            return answer

        return call

    def get_paginator(self, name: str) -> OnePage:
        return OnePage(getattr(self, name))


def _event(number: str, status: str, at: datetime) -> dict[str, Any]:
    return {
        "EventId": number,
        "ResourceType": "AWS::SageMaker::Endpoint",
        "ResourceStatus": status,
        "Timestamp": at,
    }


def _alarm(state: str, since: datetime) -> dict[str, Any]:
    return {"StateValue": state, "StateTransitionedTimestamp": since, "StateUpdatedTimestamp": since}


def _read(aws: Aws, age: timedelta) -> PastRollout:
    rollouts = rollouts_of(cast("Cloud", aws), "stack", SEARCH, now=END + age)
    return rollouts[0]


@pytest.mark.parametrize(
    ("age", "period_s"), [(0, 60), (14, 60), (20, 300), (62, 300), (64, 3600), (80, 3600)]
)
def test_requests_are_read_with_the_period_that_is_kept(age, period_s):
    """A longer period gives averages per minute."""
    rollout = _read(Aws(), timedelta(days=age))
    assert rollout.period_s == period_s
    assert rollout.requests == ((0.0, 120.0),)
    assert rollout.errors == ((0.0, 120.0),)


def _minute(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("changes", "present", "periods"),
    [
        ([(10, "OK to ALARM"), (12, "ALARM to OK")], "OK", [(600, 720)]),
        ([(10, "OK to ALARM")], "ALARM", [(600, 1500)]),
        ([(10, "ALARM to OK")], "OK", [(-300, 600)]),  # it fired before
        ([(10, "ALARM to INSUFFICIENT_DATA"), (15, "INSUFFICIENT_DATA to ALARM")], "ALARM", None),
        ([], "ALARM", [(-300, 1500)]),
        ([], "OK", []),
        ([(60, "ALARM to OK")], "OK", [(-300, 1500)]),  # the first change is after the rollout
        ([(60, "OK to ALARM")], "ALARM", []),
    ],
)
def test_an_alarm_that_already_rang_is_shown(changes, present, periods):
    aws = Aws()
    aws.changes = [(_minute(at), change) for at, change in changes]
    aws.alarms = [_alarm(present, _minute(changes[-1][0]) if changes else _minute(-600))]
    rollout = _read(aws, timedelta(hours=2))
    expected = [(-300, 600), (900, 1500)] if periods is None else periods
    assert list(rollout.firing_alarms) == [AlarmPeriod(ALARM, begin, end) for begin, end in expected]
    assert rollout.unknown_alarms == ()


@pytest.mark.parametrize(
    ("alarms", "age", "unknown", "fires"),
    [
        ([], 1, True, False),  # it was deleted
        ([_alarm("OK", END + timedelta(days=10))], 40, True, False),  # its history has expired
        ([_alarm("ALARM", START - timedelta(days=1))], 40, False, True),
        ([_alarm("OK", START - timedelta(days=1))], 40, False, False),
    ],
)
def test_an_alarm_without_a_history_is_unknown(alarms, age, unknown, fires):
    aws = Aws()
    aws.alarms = alarms
    rollout = _read(aws, timedelta(days=age))
    assert rollout.unknown_alarms == ((ALARM,) if unknown else ())
    assert bool(rollout.firing_alarms) is fires
