"""Whole simulations: a spike, provisioning, schedules, capacity errors, rollouts, and cost."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from packages.sizing.tests.simulation.simulated import STARTS, changes_of, curve, demand, plan, setup
from tritonstack.operate.deploy.kept_parameters import limit_changes
from tritonstack_sizing.simulation.serving import ServingSetup
from tritonstack_sizing.simulation.simulation import (
    FleetPlan,
    PlannedUpdate,
    SimulatedFleet,
    TimeWindow,
    simulate_scaling,
)

SPIKE = ((1200.0, 10.0), (600.0, 60.0), (1800.0, 10.0))
"""One instance answers 20 per second."""


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_spike_loses_requests_under_one_policy_and_none_under_another(is_followed):
    load = demand(*SPIKE)
    load = load if is_followed else load.approximated()
    slow = simulate_scaling(setup(plan(max_instances=4, invocations_per_instance=900)), load)
    safe = simulate_scaling(setup(None, initial=4), load)
    assert slow.is_followed == safe.is_followed == is_followed
    assert simulate_scaling(setup(None, initial=4), load) == safe
    assert slow.requests == safe.requests == load.requests
    assert slow.lost > 20_000
    assert safe.lost == 0
    assert safe.p99_ms == pytest.approx(190, rel=0.1)
    # Four instances for an hour at 0.2; the other policy pays for one, and for four in the spike.
    assert safe.cost == pytest.approx(0.8)
    assert safe.cost_per_month == pytest.approx(4 * 0.2 * 730)
    assert slow.cost is not None
    assert 0.3 < slow.cost < 0.5
    # The spike begins at 1,200 s. Three datapoints, published a minute later: to ceil(3600 / 900) = 4.
    assert changes_of(slow)[0] == (1440.0, 1, 4)
    in_service = {part.at_s: part.in_service for part in slow.slices}
    assert in_service[1620.0] == 1
    assert in_service[1740.0] == 4  # 240 s of provisioning, and 60 s of loading
    # Cooldown and 15 low minutes after the spike's last high minute.
    assert changes_of(slow)[-1][2] == 1
    assert 2700 <= changes_of(slow)[-1][0] <= 2820


def test_launches_fail_without_capacity_and_are_tried_again():
    scaling = plan(max_instances=4, invocations_per_instance=900)
    fleet = FleetPlan(STARTS, no_capacity=(TimeWindow(1400, 1600),))
    run = simulate_scaling(setup(scaling, fleet=fleet), demand(*SPIKE))
    assert run.failed_launches == 3
    assert changes_of(run)[:2] == [(1440.0, 1, 4), (1740.0, 1, 4)]


def test_only_launches_that_get_an_instance_are_billed():
    failing = FleetPlan(STARTS, no_capacity=(TimeWindow(0, 600),))
    billed = []
    for plan_of_launch in (FleetPlan(STARTS), failing):
        fleet = SimulatedFleet(plan_of_launch, in_service=1, desired=1)
        fleet.ask_for(0, 4)
        ended = [fleet.advance(now, 10) for now in range(10, 310, 10)]
        billed.append((fleet.instance_s, ended[-1], fleet.desired, fleet.failed_launches))
    assert billed == [(4 * 300, "succeeded", 4, 0), (300, "failed", 1, 3)]
    # The next launch is billed: the failure is over.
    fleet.ask_for(600, 2)
    fleet.advance(610, 10)
    assert fleet.instance_s == 300 + 20


def test_a_change_of_limits_starts_no_cooldown_of_a_policy_that_acts_at_the_same_time():
    scaling = plan(
        max_instances=10,
        invocations_per_instance=600,
        scale_out_cooldown_s=3600,
        schedules={
            "night": {"at": "00:00", "min": 1, "max": 10},
            "day": {"at": "00:04", "min": 3, "max": 10},
        },
    )
    # 2,100 per minute ask for 4 at 240 s, when the schedule sets the minimum to 3.
    run = simulate_scaling(setup(scaling), demand((3000, 35)).approximated())
    assert changes_of(run)[0] == (240.0, 1, 3)
    assert run.changes[0].cause == "schedule day"
    # The policy follows when they are in service: the last datapoint is that of one instance, counted from 3.
    # In a cooldown, it would count from 1.
    assert changes_of(run)[1] == (540.0, 3, 10)


def test_a_rollout_doubles_the_cost_and_stops_scaling():
    load = demand((3600, 10))
    fixed = plan(min_instances=2, max_instances=4)
    update = PlannedUpdate(at=600, shifting_s=360)
    run = simulate_scaling(setup(fixed, fleet=FleetPlan(STARTS, updates=(update,))), load)
    # 300 s to start and 360 s to shift, with two more instances.
    assert run.instance_hours == pytest.approx(2 + 2 * 660 / 3600, rel=0.01)
    fleet = FleetPlan(STARTS, updates=(PlannedUpdate(at=1190, shifting_s=900),))
    spike = simulate_scaling(
        setup(plan(max_instances=4, invocations_per_instance=900), fleet=fleet), demand(*SPIKE)
    )
    assert spike.changes == ()  # until 2,390 s, when the spike is over


def test_schedules_follow_their_time_zone():
    scaling = plan(
        max_instances=2,
        schedules={
            "day": {"at": "08:00", "timezone": "Europe/Berlin", "days": "MON-FRI", "min": 3, "max": 6},
            "night": {"at": "20:00", "timezone": "Europe/Berlin", "days": "MON-FRI", "min": 1, "max": 2},
        },
    )
    # The Monday on which summer time has just begun: 08:00 in Berlin is 06:00 in UTC.
    monday = datetime(2026, 3, 30, tzinfo=UTC)
    limits = limit_changes(scaling.scheduled, begin=monday, seconds=86_400)
    assert [(change.at, change.minimum, change.name) for change in limits[1:]] == [
        (6 * 3600, 3, "day"),
        (18 * 3600, 1, "night"),
    ]
    # Friday's night is in force before the first change.
    assert (limits[0].name, limits[0].at) == ("night", -(2 * 24 + 5) * 3600)
    run = simulate_scaling(setup(scaling), demand((7 * 3600, 0.01), begin=monday).approximated())
    assert changes_of(run)[0] == (6 * 3600, 1, 3)
    assert run.changes[0].cause == "schedule day"


def test_an_asynchronous_endpoint_sleeps_and_wakes():
    scaling = plan(asynchronous=True, min_instances=0, max_instances=3, backlog_per_instance=5)
    serving = ServingSetup(curve(2.0, slots=4), timeout_s=6 * 3600, queued=True)
    load = demand((600, 0.0001), (600, 1.0), (3000, 0.0001))
    for course in (load, load.approximated()):
        run = simulate_scaling(setup(scaling, serving=serving), course)
        assert run.lost == 0
        assert next(after for _, _, after in changes_of(run)) == 1
        assert changes_of(run)[-1][2] == 0
        assert run.slices[-1].in_service == 0
        assert run.instance_hours < 1.1  # 3 for about 20 minutes, of 70
        assert run.p99_ms is not None
        assert run.p99_ms > 240_000


@pytest.mark.parametrize("is_followed", [True, False])
def test_requests_that_still_wait_at_the_end_are_not_lost_until_their_time_has_passed(is_followed):
    asleep = plan(asynchronous=True, min_instances=0, max_instances=3, backlog_per_instance=5)
    load = demand((3600, 0.0), (100, 1.0))
    load = load if is_followed else load.approximated()
    for timeout_s, lost in ((6 * 3600.0, False), (1.0, True)):
        serving = ServingSetup(curve(2.0, slots=4), timeout_s=timeout_s, queued=True)
        run = simulate_scaling(setup(asleep, serving=serving), load)
        assert run.slices[-1].in_service == 0
        assert run.lost + run.waiting == load.requests
        assert (run.lost > 0.9 * load.requests) == lost
        assert (run.lost == 0) != lost
        assert run.p99_ms is None


def test_a_load_that_knows_its_instances_starts_with_them_within_the_limits():
    load = replace(demand((600, 10)), instances=3)
    for scaling, begins in (
        (plan(max_instances=4), 3),
        (plan(min_instances=2, max_instances=6), 3),
        (plan(min_instances=4, max_instances=6), 4),
        (plan(max_instances=2), 2),
    ):
        assert simulate_scaling(setup(scaling), load).slices[0].in_service == begins
