"""Service curves from saved load tests and from manifests."""

import numpy as np
import pytest

from tests.manifests import manifest
from tritonstack.files.records.manifests import LatencyReport
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.runs import LoadRun, SavedRuns, summarize
from tritonstack_sizing.loads.sending import Sent
from tritonstack_sizing.simulation.serving import manifest_curve, measured_curve

SERVICE_S, SLOTS = 0.05, 2


def level(users: int, *, error: str = "", rising: float = 0.0) -> LoadRun:
    """A closed loop on a model that sleeps 50 ms in two Triton instances."""
    sent, rate = Sent(), min(users, SLOTS) / SERVICE_S
    latency = users / rate
    for number in range(int(20 * rate)):
        due = number / rate
        sent.note(due, due, due + latency * (1 + rising * due + 0.05 * np.sin(number)), error)
    return summarize(sent, load=f"closed loop, {users} users", seconds=20.0, is_trace=False)


def saved(*runs: LoadRun) -> SavedRuns:
    return SavedRuns(
        "dev", "search", "minilm", "0" * 12, "ml.c7i.xlarge", "2026-11-24T00:00:00", runs, real_instances=True
    )


def test_a_load_test_tells_slots_and_rates():
    curve = measured_curve(saved(*(level(users) for users in (1, 2, 4, 8))), source="a.json")
    assert curve.slots == SLOTS
    np.testing.assert_allclose(curve.rates, (20, 40), rtol=0.03)
    assert curve.notes == ()
    assert 0 < curve.variation < 0.01
    assert curve.service_s(np.array([10.0, 40.0])) == pytest.approx(SERVICE_S, rel=0.03)


def test_what_a_load_test_leaves_open_is_noted():
    assert "still rising" in measured_curve(saved(level(1), level(2)), source="a").notes[0]
    assert "one level only" in measured_curve(saved(level(1)), source="a").notes[0]
    notes = measured_curve(saved(level(1), level(2), level(4), level(8, rising=0.2)), source="a").notes
    assert [note.partition(":")[0] for note in notes] == ["closed loop, 8 users"]


def test_a_manifest_tells_batches_and_instances():
    latency = (
        LatencyReport(batch=1, requests=50, p50_ms=10.0, p99_ms=15.0),
        LatencyReport(batch=8, requests=50, p50_ms=40.0, p99_ms=50.0),
    )
    curve = manifest_curve(manifest("minilm", latency=latency, instances=2))
    assert curve.capacity == pytest.approx(2 * 8 / 0.040)
    assert curve.slots == 16
    assert curve.rates[0] == pytest.approx(100)
    assert float(np.quantile(curve.shape, 0.99) / np.quantile(curve.shape, 0.5)) == pytest.approx(
        1.5, rel=0.03
    )
    assert "build machine" in curve.notes[0]
    with pytest.raises(NoMeasurementsError, match="has no latencies"):
        manifest_curve(manifest("minilm"))
