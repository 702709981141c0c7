"""Scaling decisions, without clock or store."""

import pytest

from tritonstack_local.autoscaling.decisions import (
    AlarmReading,
    CapacityProposal,
    Situation,
    decide,
    stepped,
    tracked,
)


def proposal(capacity, *, counted=None, policy="p", scales_in=False):
    return CapacityProposal(
        policy=policy,
        alarm=f"alarm-{policy}",
        state="ALARM",
        capacity=capacity,
        counted=capacity if counted is None else counted,
        cooldown_out_s=60,
        cooldown_in_s=300,
        scales_in=scales_in,
    )


def situation(capacity, *, low=1, high=10, **more):
    return Situation(capacity=capacity, minimum=low, maximum=high, **more)


@pytest.mark.parametrize(
    ("capacity", "value", "target", "expected"),
    [
        (1, 1500, 1000, 2),
        (2, 1001, 1000, 3),
        (2, 1000, 1000, 2),
        (3, 0.3 * 3, 0.9, 3),
        (4, 600, 1000, 3),
        (10, 890, 1000, 9),
        (5, 0, 1000, 0),
    ],
)
def test_target_tracking_rounds_up_to_the_capacity_that_meets_the_target(capacity, value, target, expected):
    assert tracked(capacity, value, target) == expected


def outcome(decision):
    return decision and (decision.capacity, decision.proposal.policy, (decision.reason or {}).get("Code"))


@pytest.mark.parametrize(
    ("capacity", "asked", "expected"),
    [
        (3, 99, (10, "p", None)),
        (10, 99, (10, "p", "AlreadyAtMaxCapacity")),
        (12, 99, (12, "p", "AlreadyAtMaxCapacity")),
        (3, 0, (1, "p", None)),
        (1, 0, (1, "p", "AlreadyAtMinCapacity")),
        (3, 3, (3, "p", "AlreadyAtDesiredCapacity")),
    ],
)
def test_limits_bound_every_policy(capacity, asked, expected):
    assert outcome(decide(situation(capacity), [proposal(asked)])) == expected


def test_suspensions_block_their_direction_only():
    no_out, no_in = situation(4, out_suspended=True), situation(4, in_suspended=True)
    assert decide(no_out, [proposal(7)]) is None
    assert outcome(decide(no_out, [proposal(2)])) == (2, "p", None)
    assert decide(no_in, [proposal(2)]) is None
    assert outcome(decide(no_in, [proposal(7)])) == (7, "p", None)


STEPS = [
    {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": 20, "ScalingAdjustment": 1},
    {"MetricIntervalLowerBound": 20, "ScalingAdjustment": 3},
    {"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
]


def after(*values, capacity=4, threshold=50, rises=True, steps=STEPS, **more):
    reading = AlarmReading(name="a", state="ALARM", values=values, threshold=threshold, rises=rises)
    return stepped(capacity, reading, {"StepAdjustments": steps, **more})


@pytest.mark.parametrize(("value", "expected"), [(50, 5), (69.9, 5), (70, 7), (500, 7), (49.9, 3)], ids=str)
def test_the_step_that_fits_the_breach_is_taken(value, expected):
    assert after(value) == expected


def test_the_bound_nearer_to_the_threshold_is_inclusive_below_it_too():
    falling = [
        {"MetricIntervalLowerBound": -10, "MetricIntervalUpperBound": 0, "ScalingAdjustment": -1},
        {"MetricIntervalUpperBound": -10, "ScalingAdjustment": -2},
    ]
    assert [after(value, rises=False, steps=falling) for value in (50, 41, 40, 0)] == [3, 3, 2, 2]
    assert after(51, rises=False, steps=falling) is None


def test_datapoints_of_the_evaluation_are_aggregated():
    assert after(90, 50) == 7
    assert after(90, 50, MetricAggregationType="Minimum") == 5
    assert after(69, 71, MetricAggregationType="Maximum") == 7
