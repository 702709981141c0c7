"""The search for the cheapest policy."""

import json
from datetime import timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packages.sizing.tests.simulation.simulated import curve, demand, plan, setup
from tritonstack_sizing.simulation.demand import MONDAY, Demand
from tritonstack_sizing.simulation.options import parse_objective
from tritonstack_sizing.simulation.proposals import PolicyProposal, PolicySearch, ScalingObjective
from tritonstack_sizing.simulation.simulation import ScalingRun, simulate_scaling

PRESENT = {"min_instances": 1, "max_instances": 4, "invocations_per_instance": 900}


def search(
    load: Demand, objective: ScalingObjective, present: Any = PRESENT
) -> tuple[list[PolicyProposal], PolicySearch]:
    def evaluate(settings: Any) -> ScalingRun | None:
        merged = {key: value for key, value in {**PRESENT, **settings}.items() if value is not None}
        merged = json.loads(json.dumps(merged))
        if merged["min_instances"] == merged["max_instances"]:
            return simulate_scaling(setup(None, initial=merged["min_instances"]), load, most_slices=1)
        return simulate_scaling(setup(plan(**merged)), load, most_slices=1)

    policies = PolicySearch(evaluate, objective, load, curve(slots=2), PRESENT, is_queued=False)
    return list(policies.run()), policies


def test_the_cheapest_policy_without_lost_requests_is_found_for_a_spike():
    load = demand((1200, 10), (600, 60), (600, 10)).approximated()
    objective = ScalingObjective(p99_ms=400, lost_share=0)
    proposals, searched = search(load, objective)
    assert searched.evaluated > 20
    best = proposals[0]
    assert objective.holds(best.run)
    assert best.run.lost == 0
    assert best.settings["min_instances"] in {3, 4}
    # One instance fewer, all the time, loses requests or is too slow.
    fewer = simulate_scaling(setup(None, initial=2), load)
    assert not objective.holds(fewer)
    assert best.run.instance_hours <= min(proposal.run.instance_hours for proposal in proposals) * 1.01


def test_the_present_policy_remains_if_nothing_is_cheaper():
    load = demand((1800, 5)).approximated()
    proposals, _ = search(load, ScalingObjective(p99_ms=1000))
    assert proposals[0].settings == {}


@pytest.mark.parametrize("offset_h", [5.5])
def test_a_day_with_a_pattern_gets_a_schedule_in_utc(offset_h):
    """The busy hours are 08:00 to 18:00 in UTC, whatever the offset of the load's begin."""
    begin = MONDAY.astimezone(timezone(timedelta(hours=offset_h)))
    hours = np.full(24, 10.0)
    hours[8:18] = 55.0
    rates = np.repeat(hours, 360)
    load = Demand(np.random.default_rng(1).poisson(rates * 10), begin=begin)
    proposals, _ = search(load, ScalingObjective(p99_ms=400, lost_share=0))
    schedules: Any = proposals[0].settings["schedules"]
    assert schedules["day"]["at"] == "07:30"
    assert schedules["day"]["min"] >= 3
    assert schedules["night"] == {"at": "18:00", "timezone": "UTC", "max": schedules["day"]["max"], "min": 1}
    always = simulate_scaling(setup(None, initial=schedules["day"]["min"]), load)
    assert proposals[0].run.instance_hours < 0.8 * always.instance_hours


NUMBERS = st.decimals(min_value="0.0001", max_value="5000", places=4, allow_nan=False).map(str)
LATENCIES = st.builds("p99={}{}".format, NUMBERS, st.sampled_from(["ms", "s", "m", "h", "d"]))
SHARES = st.one_of(
    st.just("0"),
    st.decimals(min_value=0, max_value="99.9999", places=4, allow_nan=False).map("{}%".format),
).map("lost={}".format)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        LATENCIES,
        SHARES,
        st.tuples(LATENCIES, SHARES).map(",".join),
        st.tuples(SHARES, LATENCIES).map(",".join),
    )
)
def test_every_form_of_an_objective_is_described_as_the_parser_reads_it(text):
    objective = parse_objective(text)
    assert parse_objective(objective.describe()) == objective
