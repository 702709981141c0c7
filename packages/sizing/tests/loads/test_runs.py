"""Slices, the warm-up, steadiness, comparisons, and charts of runs."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.comparing import compare_runs
from tritonstack_sizing.loads.runs import (
    LoadRun,
    SavedRuns,
    find_steady,
    load_runs,
    summarize,
)
from tritonstack_sizing.loads.sending import Sent
from tritonstack_sizing.simulation.serving import measured_curve

SECONDS = 20.0


def run_of(latency: Any, *, rate: float = 100, seed: int = 1, errors: Any = lambda _: "") -> LoadRun:
    """A run whose latency is a function of the second, with 20 % of noise."""
    generator = np.random.default_rng(seed)
    sent = Sent()
    for due in np.arange(0, SECONDS, 1 / rate):
        took = latency(due) * generator.lognormal(0, 0.2)
        sent.note(due, due + 0.0001, due + took, errors(due))
    return summarize(sent, load="open loop", seconds=SECONDS, is_trace=False)


def test_a_slow_start_is_left_out():
    run = run_of(lambda due: 0.2 if due < 3 else 0.01)
    assert 3 <= run.warm_up * run.slice_s <= 4
    assert run.steady
    assert run.percentiles_ms()[99.0] < 20
    assert run.answered_per_s == pytest.approx(100, rel=0.1)


def test_a_rising_latency_is_not_steady():
    assert not run_of(lambda due: 0.01 * (1 + due)).steady
    assert run_of(lambda _: 0.01).steady
    assert find_steady([1.0, 1.0]) == (0, False)


def test_answers_after_the_end_count_for_latency_but_not_for_throughput():
    """An overloaded server answers late; leaving those requests out would hide the longest waits."""
    run = run_of(lambda due: 1 + due)
    assert run.latencies.sum() > 900
    assert sum(part.answered for part in run.slices) < 1100
    assert run.percentiles_ms()[99.0] > 15_000


def test_rare_percentiles_need_enough_answers():
    assert set(run_of(lambda _: 0.01).percentiles_ms()) == {50.0, 90.0, 99.0}
    assert set(run_of(lambda _: 0.01, rate=2).percentiles_ms()) == {50.0}


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "no difference shown"), (1.2, "worse"), (0.8, "better")]
)
def test_verdicts(factor, verdict):
    before, after = run_of(lambda _: 0.01), run_of(lambda _: 0.01 * factor, seed=2)
    comparison = compare_runs(before, after)
    assert comparison.verdict == verdict
    median = next(difference for difference in comparison.differences if difference.measure == "p50 ms")
    assert median.low <= median.ratio <= median.high
    assert median.ratio == pytest.approx(factor, rel=0.03)


def test_a_run_too_short_to_show_its_spread_gets_no_verdict():
    before, after = run_of(lambda _: 0.01), run_of(lambda _: 0.02, seed=2)
    short = replace(after, slices=after.slices[: after.warm_up + 3])
    assert compare_runs(before, after).verdict == "worse"
    assert compare_runs(before, short).verdict == "no difference shown"


def test_equal_runs_rarely_differ():
    """Of runs that differ by chance alone, at most few may get a verdict."""
    runs = [run_of(lambda _: 0.01, seed=seed) for seed in range(12)]
    verdicts = [compare_runs(runs[0], other).verdict for other in runs[1:]]
    assert verdicts.count("no difference shown") >= 10


def saved(*runs: LoadRun) -> SavedRuns:
    return SavedRuns("dev", "tritonstack-dev-search", "minilm", "ab", "ml.c7i.xlarge", "2026-11-24", runs)


def test_a_saved_run_is_the_same_run(tmp_path):
    before = saved(run_of(lambda _: 0.01, errors=lambda due: "timeout" if due > 19 else ""))
    (tmp_path / "a.json").write_text(before.text())
    after = load_runs(tmp_path / "a.json")
    assert after.to_json() == before.to_json()
    assert compare_runs(before.runs[0], after.runs[0]).verdict == "no difference shown"


@pytest.mark.parametrize(
    ("real_instances", "machine", "measured_on"),
    [
        (True, "", "ml.c7i.xlarge"),
        (False, "2 x EPYC", "the local cloud (2 x EPYC)"),
        (None, "", "a machine that the file does not name"),
    ],
)
def test_a_saved_run_names_what_answered(tmp_path, real_instances, machine, measured_on):
    content = replace(saved(run_of(lambda _: 0.01)), real_instances=real_instances, machine=machine).to_json()
    if real_instances is None:
        del content["real_instances"], content["machine"]
    (tmp_path / "a.json").write_text(json.dumps(content))
    result = load_runs(tmp_path / "a.json")
    assert (result.real_instances, result.measured_on) == (real_instances, measured_on)
    assert (measured_curve(result, source="a.json").instance == "ml.c7i.xlarge") == (real_instances is True)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[:500],
        lambda text: "[]",
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: json.dumps({**json.loads(text), "runs": 3}),
        lambda text: text.replace('"warm_up": 0', '"warm_up": 99'),
    ],
)
def test_a_damaged_file_is_rejected(tmp_path, change):
    file = tmp_path / "a.json"
    file.write_text(saved(run_of(lambda _: 0.01)).text())
    whole = file.read_text().replace(f'"warm_up": {load_runs(file).runs[0].warm_up}', '"warm_up": 0')
    file.write_text(change(whole))
    with pytest.raises(NoMeasurementsError, match=r"cannot read .*a\.json"):
        load_runs(file)
