"""The simulator and the local cloud decide alike: two implementations of the same rules."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from packages.sizing.tests.simulation.simulated import plan, tick
from tritonstack.constructs.endpoint.scaling_plan import Stepping
from tritonstack_local.autoscaling.decisions import (
    AlarmReading,
    CapacityProposal,
    Situation,
    decide,
    stepped,
    tracked,
)
from tritonstack_local.autoscaling.records import Cooldown
from tritonstack_sizing.simulation.autoscaler import Autoscaler

TICKS = 6
TARGET = 100
LIMITS = (1, 1000)
COUNTS = st.integers(1, 40)
HIGH = st.floats(101, 5000).map(round)
LOW = st.floats(0, 89).map(round)


def proposal(capacity: int, base: int, value: float, *, scales_in: bool = False) -> CapacityProposal:
    return CapacityProposal(
        policy="p",
        alarm="a",
        state="ALARM",
        capacity=tracked(capacity, value, TARGET),
        counted=tracked(base, value, TARGET),
        cooldown_out_s=300,
        cooldown_in_s=300,
        scales_in=scales_in,
    )


def simulated(scaler: Autoscaler, minutes: list[int], capacity: int, *, begin: int = 0) -> int:
    """Return the capacity after minutes with so many invocations per instance."""
    for number, value in enumerate(minutes, start=begin):
        for part in range(TICKS):
            scaler.observe(tick(number * TICKS + part, requests=value * capacity / TICKS, instances=capacity))
        now = (number + 1) * 60.0
        if decision := scaler.decide(now, capacity, limits=LIMITS, is_updating=False):
            return decision.instances
    return capacity


STEPS = {
    "metric": "invocations_per_instance",
    "scale_out": [{"above": 100, "add": 1}, {"above": 150, "add": 3}, {"above": 400, "add": 9}],
    "scale_in": {"below": 50, "remove": 2},
}
NEAR = st.sampled_from([0, 10, 49, 50, 51, 99, 100, 101, 149, 150, 151, 399, 400, 401, 1000])
"""Values at the bounds of the steps, and next to them."""


@settings(max_examples=120, deadline=None)
@given(st.integers(3, 40), st.lists(NEAR, min_size=5, max_size=5))
def test_both_take_the_same_step_for_the_same_datapoints(capacity, minutes):
    scaling = plan(max_instances=1000, steps=STEPS)
    scaler = Autoscaler(scaling, units={}, delay_periods=0.0)
    for number, value in enumerate(minutes):
        for part in range(TICKS):
            requests = 0 if part else value * capacity
            scaler.observe(tick(number * TICKS + part, requests=requests, instances=capacity))
    decision = scaler.decide(300.0, capacity, limits=LIMITS, is_updating=False)
    steps = []
    for policy in scaling.stepped:
        newest = tuple(float(value) for value in minutes[::-1][: policy.alarm.periods])
        rises = policy.alarm.comparison.startswith("Greater")
        threshold = policy.alarm.threshold
        if all(value > threshold if rises else value < threshold for value in newest):
            reading = AlarmReading(
                name=policy.id, state="ALARM", values=newest, threshold=threshold, rises=rises
            )
            steps.append(stepped(capacity, reading, configuration(policy)))
    expected = max((step for step in steps if step is not None), default=capacity)
    assert (capacity if decision is None else decision.instances) == expected


def configuration(policy: Stepping) -> dict[str, Any]:
    """The configuration that the CDK's constructs write."""
    bounds = ("MetricIntervalLowerBound", "MetricIntervalUpperBound")
    return {
        "AdjustmentType": "ChangeInCapacity",
        "MetricAggregationType": "Average",
        "StepAdjustments": [
            {
                "ScalingAdjustment": step.change,
                **{
                    name: value
                    for name, value in zip(bounds, (step.lower, step.upper), strict=True)
                    if value is not None
                },
            }
            for step in policy.adjustments
        ],
    }


def new_scaler() -> Autoscaler:
    scaling = plan(max_instances=1000, invocations_per_instance=TARGET, scale_out_cooldown_s=300)
    return Autoscaler(scaling, units={}, delay_periods=0.0)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.lists(HIGH, min_size=3, max_size=3))
def test_both_scale_out_to_the_same_count(capacity, minutes):
    situation = Situation(capacity=capacity, minimum=1, maximum=1000)
    decision = decide(situation, [proposal(capacity, capacity, minutes[-1])])
    assert decision is not None
    assert simulated(new_scaler(), minutes, capacity) == decision.capacity


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.lists(LOW, min_size=15, max_size=15))
def test_both_scale_in_to_the_same_count(capacity, minutes):
    situation = Situation(capacity=capacity, minimum=1, maximum=1000)
    decision = decide(situation, [proposal(capacity, capacity, max(minutes), scales_in=True)])
    assert decision is not None
    assert simulated(new_scaler(), minutes, capacity) == decision.capacity


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), HIGH, HIGH)
def test_both_count_from_before_a_scale_out_in_its_cooldown(base, first, second):
    scaler = new_scaler()
    capacity = simulated(scaler, [first] * 3, base)
    scaler.completed(180.0)
    situation = Situation(
        capacity=capacity,
        minimum=1,
        maximum=1000,
        cooldown=Cooldown(direction="out", ends=480.0, base=base),
    )
    decision = decide(situation, [proposal(capacity, base, second)])
    expected = capacity if decision is None else decision.capacity
    assert simulated(scaler, [second], capacity, begin=3) == expected
