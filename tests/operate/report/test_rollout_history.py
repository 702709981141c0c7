"""Rollouts: what CloudFormation's events, deployment policies, and alarm histories mean."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tritonstack.operate.report.rollout_history import PastRollout, planned_shift, updates_in

START = datetime(2026, 11, 26, 9, tzinfo=UTC)
ENDPOINT, STACK = "AWS::SageMaker::Endpoint", "AWS::CloudFormation::Stack"


def _events(*rows: tuple[str, str]) -> list[dict[str, Any]]:
    """Return events one minute after each other."""
    return [
        {
            "ResourceType": kind,
            "ResourceStatus": status,
            "ResourceStatusReason": "alarm x" if status.endswith("FAILED") else None,
            "Timestamp": START + timedelta(minutes=minute),
        }
        for minute, (kind, status) in enumerate(rows)
    ]


def test_an_update_begins_once_and_ends_with_its_outcome():
    events = _events(
        (STACK, "CREATE_IN_PROGRESS"),
        (ENDPOINT, "CREATE_IN_PROGRESS"),
        (ENDPOINT, "CREATE_COMPLETE"),
        (STACK, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_IN_PROGRESS"),
        ("AWS::CloudWatch::Alarm", "UPDATE_COMPLETE"),
        (ENDPOINT, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_COMPLETE"),
        (STACK, "UPDATE_COMPLETE"),
    )
    (update,) = updates_in(events)
    assert (update.started, update.ended, update.outcome) == (
        START + timedelta(minutes=4),
        START + timedelta(minutes=7),
        "completed",
    )


def test_the_way_back_after_a_failure_is_no_rollout_of_its_own():
    events = _events(
        (STACK, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_FAILED"),
        (STACK, "UPDATE_ROLLBACK_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_COMPLETE"),
        (STACK, "UPDATE_ROLLBACK_COMPLETE"),
        (STACK, "UPDATE_IN_PROGRESS"),
        (ENDPOINT, "UPDATE_IN_PROGRESS"),
    )
    assert [update.outcome for update in updates_in(events)] == ["rolled back: alarm x", "in progress"]


@pytest.mark.parametrize(
    ("routing", "shares"),
    [
        ({"Type": "ALL_AT_ONCE"}, [100, 100]),
        ({"Type": "CANARY", "CanarySize": {"Value": 10}, "WaitIntervalInSeconds": 300}, [10, 10, 100, 100]),
        (
            {"Type": "LINEAR", "LinearStepSize": {"Value": 40}, "WaitIntervalInSeconds": 300},
            [40, 40, 80, 80, 100, 100],
        ),
    ],
)
def test_the_planned_shift_ends_with_all_traffic(routing, shares):
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 60}
    _, points = planned_shift({"BlueGreenUpdatePolicy": policy})
    assert [share for _, share in points] == shares
    times = [second for second, _ in points]
    assert times == sorted(times)
    assert times[-1] == times[-2] + 60


@pytest.mark.parametrize("seconds", [2000.0, 900.0, 12.0])
def test_the_shift_of_a_completed_rollout_is_within_it_and_ends_with_it(seconds):
    """The local cloud can run faster than AWS, but not slower than planned."""
    planned = ((0.0, 50.0), (300.0, 50.0), (300.0, 100.0), (900.0, 100.0))
    shift = PastRollout("search", START, seconds, "completed", planned, "linear").planned_shift
    times = [at for at, _ in shift]
    assert times == sorted(times)
    assert times[0] == 0
    assert times[-1] == pytest.approx(seconds)
    assert [share for _, share in shift] == [0, 0, 50, 50, 100, 100]
