"""The simulator and the local cloud decide alike: two implementations of the same rules.

`python -m benchmarks.simulation` compares whole courses on running endpoints.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations.scaling_simulation.simulated import plan, tick
from tritonstack.operations.scaling_simulation.autoscaler import Autoscaler
from tritonstack_local.autoscaling.decisions import Situation, Wish, decide, tracked
from tritonstack_local.autoscaling.records import Cooldown

TICKS = 6
TARGET = 100
LIMITS = (1, 1000)
COUNTS = st.integers(1, 40)
HIGH = st.floats(101, 5000).map(round)
LOW = st.floats(0, 89).map(round)


def wish(capacity: int, base: int, value: float, *, scales_in: bool = False) -> Wish:
    return Wish(
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
        if wanted := scaler.decide(now, capacity, limits=LIMITS, is_updating=False):
            return wanted.instances
    return capacity


def new_scaler() -> Autoscaler:
    scaling = plan(max_instances=1000, invocations_per_instance=TARGET, scale_out_cooldown_s=300)
    return Autoscaler(scaling, units={}, delay_periods=0.0)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.lists(HIGH, min_size=3, max_size=3))
def test_both_scale_out_to_the_same_count(capacity: int, minutes: list[int]) -> None:
    situation = Situation(capacity=capacity, minimum=1, maximum=1000)
    decision = decide(situation, [wish(capacity, capacity, minutes[-1])])
    assert decision is not None
    assert simulated(new_scaler(), minutes, capacity) == decision.capacity


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.lists(LOW, min_size=15, max_size=15))
def test_both_scale_in_to_the_same_count(capacity: int, minutes: list[int]) -> None:
    situation = Situation(capacity=capacity, minimum=1, maximum=1000)
    decision = decide(situation, [wish(capacity, capacity, max(minutes), scales_in=True)])
    assert decision is not None
    assert simulated(new_scaler(), minutes, capacity) == decision.capacity


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), HIGH, HIGH)
def test_both_count_from_before_a_scale_out_in_its_cooldown(base: int, first: int, second: int) -> None:
    scaler = new_scaler()
    capacity = simulated(scaler, [first] * 3, base)
    scaler.completed(180.0)
    situation = Situation(
        capacity=capacity,
        minimum=1,
        maximum=1000,
        cooldown=Cooldown(direction="out", ends=480.0, base=base),
    )
    decision = decide(situation, [wish(capacity, base, second)])
    expected = capacity if decision is None else decision.capacity
    assert simulated(scaler, [second], capacity, begin=3) == expected
