"""The traces of `python -m benchmarks.simulation`, and what it calls equal."""

from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from benchmarks.cloud import deploy
from benchmarks.simulation.__main__ import SLEEP_S, TRACES, Measured, arrivals, compared, simulated

MINUTE_S, PROVISIONING = 5.0, 2.5


def course(name: str, *, late_s: float = 0.0, service_s: float = SLEEP_S * 1.05) -> Measured:
    offsets, minutes = arrivals(TRACES[name], MINUTE_S)
    return Measured(offsets + late_s, minutes, (1,) * minutes, 1.0, 0, service_s)


@pytest.mark.parametrize("name", TRACES)
def test_no_scale_out_of_a_trace_depends_on_two_tenths_of_a_second(name):
    """A request that takes longer on a busy machine counts later. A later scale-out doubles the p99."""
    changes = [simulated(course(name, late_s=late_s), MINUTE_S, PROVISIONING) for late_s in (0.0, 0.1, 0.2)]
    out = [[change.at_s for change in run.changes if change.after > change.before] for run in changes]
    assert out[0] == out[1] == out[2]
    np.testing.assert_allclose([run.p99_ms for run in changes], changes[0].p99_ms, rtol=0.1)


def test_a_simulation_equals_itself_and_not_one_without_provisioning():
    run = simulated(course("spike"), MINUTE_S, PROVISIONING)
    assert run.p99_ms is not None
    same = Measured(
        *arrivals(TRACES["spike"], MINUTE_S),
        tuple(measured.in_service for measured in run.slices),
        run.p99_ms / 1000 * MINUTE_S / 60,
        0,
        SLEEP_S,
    )
    assert compared(same, run, MINUTE_S) == (1.0, pytest.approx(0.0))
    within, error = compared(same, simulated(course("spike"), MINUTE_S, 0.0), MINUTE_S)
    assert within < 1
    assert abs(error) > 0.25


def test_the_endpoint_routes_as_the_simulator_does():
    """At random, one of two instances gets requests while its queue is full and the other one is idle."""
    session = MagicMock()
    deploy(session, "http://127.0.0.1", Path("model.tar.gz"), {})
    (variant,) = session.client.return_value.create_endpoint_config.call_args.kwargs["ProductionVariants"]
    assert variant["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
