"""Timelines of scaling that are computed by hand from AWS's rules."""

from collections.abc import Callable
from typing import Any

from packages.sizing.tests.simulation.simulated import plan, tick
from tritonstack_sizing.simulation.autoscaler import Autoscaler

PER_MINUTE = 6


def timeline(
    scaling: Any,
    load: Callable[[int], dict[str, Any]],
    ticks: int,
    *,
    current: int = 1,
    limits: tuple[int, int] = (1, 10),
    updating_s: float = 0.0,
    delay_periods: float = 0.0,
    is_immediate: bool = True,
) -> list[tuple[float, int]]:
    """Return when scaling asks for which count; each change is in service after `updating_s`."""
    scaler = Autoscaler(scaling, units={"CPUUtilization": 4.0}, delay_periods=delay_periods)
    changes, updating_until = [], -1.0
    for number in range(ticks):
        now = (number + 1) * 10.0
        if updating_until == now or (is_immediate and changes and changes[-1][0] == now - 10):
            scaler.completed(now)
        scaler.observe(tick(number, **{"instances": current, **load(number)}))
        decision = scaler.decide(now, current, limits=limits, is_updating=now < updating_until)
        if decision is not None:
            current = decision.instances
            changes.append((now, current))
            updating_until = now + updating_s if updating_s else -1.0
    return changes


def rate(per_minute: float) -> dict[str, Any]:
    return {"requests": per_minute / PER_MINUTE}


def test_three_minutes_above_the_target_scale_out_to_the_proportional_count():
    scaling = plan(max_instances=10, invocations_per_instance=600)
    # 2,100 requests per minute on one instance: ceil(1 x 2100 / 600) = 4.
    assert timeline(scaling, lambda _: rate(2100), 30)[0] == (180.0, 4)
    assert timeline(scaling, lambda _: rate(600), 60) == []  # at the target is not above it
    assert timeline(scaling, lambda number: rate(2100 if number % 18 < 12 else 600), 108) == []  # two minutes
    assert timeline(scaling, lambda _: rate(2100), 40, delay_periods=1.0)[0] == (240.0, 4)  # published later
    busy = {"requests": 10, "concurrency": 10.0}
    assert timeline(plan(max_instances=10, concurrent_requests_per_model=4), lambda _: busy, 6)[0] == (
        30.0,
        3,
    )


def test_fifteen_minutes_below_nine_tenths_scale_in():
    scaling = plan(max_instances=10, invocations_per_instance=600)
    # 8 instances with 1,100 per minute: 137.5 each; ceil(8 x 137.5 / 600) = 2.
    changes = timeline(scaling, lambda _: rate(1100), 100, current=8)
    assert changes == [(900.0, 2)]
    # 91 % of the target is not low enough; 89 % is, but fewer instances would be too few.
    assert timeline(scaling, lambda _: rate(2 * 600 * 0.91), 120, current=2) == []
    assert timeline(scaling, lambda _: rate(2 * 600 * 0.89), 120, current=2) == []


def test_a_cooldown_counts_what_was_added():
    scaling = plan(max_instances=10, invocations_per_instance=600, scale_out_cooldown_s=300)
    # To 2 at 180 s, in service at 190 s. Then 900 per minute and instance: counted from one instance, that
    # asks for ceil(1 x 900 / 600) = 2, which is no more than there are. The cooldown ends at 490 s.
    changes = timeline(scaling, lambda number: rate(1200 if number < 18 else 1800), 60)
    assert changes == [(180.0, 2), (540.0, 3)]
    # 1,800 per minute and instance ask for 3 in the cooldown, too: a larger scale-out.
    changes = timeline(scaling, lambda number: rate(1200 if number < 18 else 3600), 29)
    assert changes == [(180.0, 2), (240.0, 3)]


def test_an_updating_endpoint_accepts_no_change():
    scaling = plan(max_instances=10, invocations_per_instance=600, scale_out_cooldown_s=0)
    changes = timeline(
        scaling, lambda number: rate(1200 + 10 * number), 80, updating_s=300.0, is_immediate=False
    )
    assert changes[0] == (180.0, 3)
    assert changes[1][0] >= 480


def test_all_target_tracking_policies_must_agree_to_scale_in_and_one_scales_out():
    scaling = plan(max_instances=10, invocations_per_instance=600, concurrent_requests_per_model=4)
    busy = {"requests": 10, "concurrency": 3.9}
    assert timeline(scaling, lambda _: busy, 200, current=5) == []
    # Concurrency is below its target of 4 but not so far that its low alarm is on: it keeps all 20.
    content = {"requests": 10, "concurrency": 3.7}
    assert timeline(scaling, lambda _: content, 200, current=20, limits=(1, 30)) == []
    idle = {"requests": 10, "concurrency": 1.0}
    # 12 per minute of 600, and 1 of 4 at once: the larger of 1 and ceil(5 x 1 / 4) = 2 wins.
    assert timeline(scaling, lambda _: idle, 95, current=5) == [(900.0, 2)]


def test_steps_add_by_range_and_remove_after_five_minutes():
    steps = {
        "metric": "cpu_utilization_percent",
        "scale_out": [{"above": 60, "add": 1}, {"above": 90, "add": 4}],
        "scale_in": {"below": 20, "remove": 2},
    }
    scaling = plan(max_instances=10, steps=steps, scale_out_cooldown_s=600)
    assert timeline(scaling, lambda _: {"busy": 0.7}, 12) == [(60.0, 2)]
    assert timeline(scaling, lambda _: {"busy": 0.95}, 12) == [(60.0, 5)]
    assert timeline(scaling, lambda _: {"busy": 0.5}, 60) == []
    assert timeline(scaling, lambda _: {"busy": 0.1}, 59, current=6) == [(300.0, 4)]
    # In the cooldown, the step of 4 is larger than that of 1, which counts towards it: 1 + 4.
    changes = timeline(scaling, lambda number: {"busy": 0.7 if number < 6 else 0.95}, 17)
    assert changes == [(60.0, 2), (120.0, 5)]


def test_a_backlog_without_instances_wakes_an_asynchronous_endpoint():
    scaling = plan(asynchronous=True, min_instances=0, max_instances=5, backlog_per_instance=5)
    changes = timeline(scaling, lambda _: {"backlog": 12.0, "instances": 0}, 30, current=0, limits=(0, 5))
    assert changes[0] == (120.0, 1)
    # 12 waiting on one instance, for three minutes: ceil(1 x 12 / 5) = 3; and to zero when nothing waits.
    assert timeline(scaling, lambda _: {"backlog": 12.0}, 20, limits=(0, 5))[0] == (180.0, 3)
    assert timeline(scaling, lambda _: {"backlog": 0.0}, 95, limits=(0, 5)) == [(900.0, 0)]


def test_a_scale_in_cooldown_begins_when_the_scale_in_has_completed():
    scaler = Autoscaler(plan(max_instances=10, invocations_per_instance=600), units={}, delay_periods=0.0)
    times, current = [], 8
    for number in range(240):
        now = (number + 1) * 10.0
        if times and now == times[0] + 200:
            scaler.completed(now)
        scaler.observe(tick(number, instances=current, requests=current * (10 if number < 90 else 5)))
        if scaler.decide(now, current, limits=(1, 10), is_updating=False):
            times.append(now)
            current -= 1
    # Accepted, completed 200 s later, and 300 s of cooldown from then on.
    assert times[0] == 900.0
    assert not [at for at in times if 1100 <= at < 1400]
