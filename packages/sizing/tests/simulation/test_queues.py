"""Queues against closed formulas, and the approximation against the simulation of each request."""

import math
from typing import Any

import numpy as np
import pytest

from packages.sizing.tests.simulation.simulated import CONSTANT, EXPONENTIAL, curve
from tritonstack_sizing.loads.arrivals import Trace, count_arrivals, poisson
from tritonstack_sizing.loads.histograms import bucket_of, mean_s, percentiles_s
from tritonstack_sizing.simulation.fluid_queues import FluidQueues
from tritonstack_sizing.simulation.request_queues import RequestQueues
from tritonstack_sizing.simulation.serving import TICK_S, ModelCache, ServingSetup

SERVICE_S = 0.1


def served(queues: Any, ticks: int, instances: Any) -> Any:
    """Run with a fixed number of instances, or with a number per tick."""
    loads = []
    for number in range(ticks):
        queues.resize(instances if isinstance(instances, int) else instances(number))
        loads.append(queues.run(number))
    return queues.latencies(1, ticks * TICK_S), loads


def both(offsets: Any, ticks: int, setup: ServingSetup, instances: Any) -> Any:
    counts = count_arrivals(Trace(offsets, ticks * TICK_S), step_s=TICK_S)
    return (
        served(RequestQueues(setup, offsets, seed=1), ticks, instances),
        served(FluidQueues(setup, counts, seed=1), ticks, instances),
    )


def waiting_s(queues: tuple[Any, Any]) -> float:
    return mean_s(queues[0].counts[0]) - SERVICE_S


def erlang_c(servers: int, load: float) -> float:
    """The probability to wait in M/M/c."""
    offered = servers * load
    below = sum(offered**number / math.factorial(number) for number in range(servers))
    last = offered**servers / math.factorial(servers) / (1 - load)
    return last / (below + last)


@pytest.mark.parametrize(("slots", "load"), [(1, 0.7), (4, 0.8)])
def test_mean_waits_are_those_of_markov_queues(slots, load):
    ticks = 1000
    offsets = poisson(slots * load / SERVICE_S, ticks * TICK_S, seed=4).offsets
    setup = ServingSetup(curve(slots=slots, shape=EXPONENTIAL), timeout_s=600)
    expected = erlang_c(slots, load) * SERVICE_S / (slots * (1 - load))
    exact, fluid = both(offsets, ticks, setup, 1)
    assert waiting_s(exact) == pytest.approx(expected, rel=0.08)
    assert waiting_s(fluid) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("shape", [CONSTANT, EXPONENTIAL], ids=["constant", "exponential"])
@pytest.mark.parametrize("load", [0.5, 0.8, 0.9])
def test_the_approximation_has_the_percentiles_of_single_requests(shape, load):
    ticks, instances = 300, 4
    offsets = poisson(instances * 2 * load / SERVICE_S, ticks * TICK_S, seed=6).offsets
    setup = ServingSetup(curve(slots=2, shape=shape), timeout_s=60)
    (exact, exact_loads), (fluid, fluid_loads) = both(offsets, ticks, setup, instances)
    percentiles = percentiles_s(exact.counts[0], (50.0, 99.0))
    np.testing.assert_allclose(percentiles_s(fluid.counts[0], (50.0, 99.0)), percentiles, rtol=0.15)
    busy = [np.mean([tick.busy for tick in loads]) for loads in (exact_loads, fluid_loads)]
    peaks = [np.mean([tick.concurrency for tick in loads]) for loads in (exact_loads, fluid_loads)]
    assert busy[0] == pytest.approx(load, rel=0.03)
    assert busy[1] == pytest.approx(busy[0], rel=0.02)
    assert peaks[1] == pytest.approx(peaks[0], rel=0.3)


def test_a_full_queue_rejects_and_an_empty_fleet_loses_requests():
    offsets = np.arange(1000) / 100  # 100 per second for 10 seconds, on 10 per second
    limited = both(offsets, 1, ServingSetup(curve(), timeout_s=60, queue_limit=20), 1)
    assert [latencies.lost.sum() for latencies, _ in limited] == pytest.approx([880, 880], abs=5)
    empty = both(offsets, 1, ServingSetup(curve(), timeout_s=60), 0)
    assert [(latencies.lost.sum(), loads[0].unserved) for latencies, loads in empty] == [(1000, 1000)] * 2


def test_removed_instances_finish_what_they_have():
    setup = ServingSetup(curve(service_s=5.0), timeout_s=60)
    latencies, _ = served(RequestQueues(setup, np.zeros(6), seed=1), 3, lambda tick: 2 if tick < 1 else 1)
    assert latencies.counts.sum() == 6
    assert latencies.lost.sum() == 0


def test_a_model_that_is_not_loaded_delays_its_request():
    """Two models of which one fits: in turns, each request loads its model again."""
    offsets = np.arange(0, 100, 10.0)
    for memory, slow in ((1.5, None), (2.5, 2)):
        cache = ModelCache(sizes=(1, 1), load_s=(3.0, 3.0), shares=(0.5, 0.5), memory_bytes=memory)
        queues = RequestQueues(ServingSetup(curve(), 60, cache=cache), offsets, seed=3)
        latencies, _ = served(queues, 10, 1)
        above = latencies.counts[0][int(bucket_of(np.array([2.9]))[0]) :].sum()
        changes = 1 + int(np.count_nonzero(np.diff(np.random.default_rng(3).choice(2, 10, p=(0.5, 0.5)))))
        assert above == (changes if slow is None else slow)
