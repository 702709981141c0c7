"""The performance gate: which recorded load tests show an objective, and why others do not."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tritonstack.files.environment.promotion import PerformanceObjective, PromotionSpec
from tritonstack.files.records.events import Event, LoadTest, RecordedLevel, TouchedArtifact
from tritonstack.operate.promote.gates import PromotionCandidate, evaluate_gates
from tritonstack.operate.promote.performance import PerformanceRequirement

OURS, OTHER = "ab" * 32, "cd" * 32
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
OBJECTIVE = PerformanceObjective(rate_per_instance=40, p99_ms=250)
REQUIRED = PerformanceRequirement("search", "ml.c7i.xlarge", True, OBJECTIVE, "run `tritonstack bench`")
CANDIDATE = PromotionCandidate("minilm", "cpu", OURS, performance=(REQUIRED,))
LATER = "18T11:00"


def level(
    rate: float | None = 40, p99: float | None = 200, *, instances: int | tuple[int, int] = 1, **changes: Any
) -> RecordedLevel:
    lowest, highest = (instances, instances) if isinstance(instances, int) else instances
    usual = RecordedLevel(
        load="open loop" if rate else "closed loop, 8 users",
        offered_per_s=rate,
        is_trace=False,
        lowest_instances=lowest,
        highest_instances=highest,
        answered_per_s=rate or 50,
        answers=2000,
        failed_percent=0,
        p50_ms=20,
        p99_ms=p99,
        steady=True,
    )
    return usual.model_copy(update=changes)


def recorded(
    *levels: RecordedLevel,
    at: str = "17T12:00",
    digest: str = OURS,
    model: str = "minilm",
    instance: str = "ml.c7i.xlarge",
    real_instances: bool = True,
    commit: str | None = "c" * 40,
) -> Event:
    test = LoadTest(instance_type=instance, real_instances=real_instances, levels=levels or (level(),))
    return Event(
        kind="load-tested",
        environment="dev",
        at=f"2026-11-{at}:00Z",
        by="ann",
        commit=commit,
        endpoints=("search",),
        artifacts=(TouchedArtifact(model=model, target="cpu", digest=digest),),
        load_test=test,
    )


def failed(*events: Event, protected: bool = True, candidate: PromotionCandidate = CANDIDATE) -> list[str]:
    """Return why each missed objective is not shown."""
    spec = PromotionSpec(source="dev", verified=False)
    gates = evaluate_gates(spec, [candidate], events, NOON, served=("search",), protected=protected)
    assert all(gate.gate == "performance" and gate.remedy for gate in gates if not gate.passed)
    return [gate.measured for gate in gates if not gate.passed]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([recorded()], id="exactly the rate"),
        pytest.param([recorded(level(120.0, instances=3))], id="the rate of each instance"),
        pytest.param([recorded(level(120.0, instances=(1, 3)))], id="scaled out, enough for all instances"),
        pytest.param([recorded(level(is_trace=True))], id="a trace"),
        pytest.param([recorded(), recorded(level(p99=900, is_trace=True), at=LATER)], id="a trace's peaks"),
        pytest.param(
            [recorded(), recorded(level(60, 900, instances=(1, 2)), at=LATER)],
            id="later overloaded before it scaled out",
        ),
        pytest.param([recorded(), recorded(level(1, 900, instances=(0, 1)), at=LATER)], id="start from zero"),
        pytest.param([recorded(), recorded(level(p99=900), real_instances=False, at=LATER)], id="local"),
        pytest.param([recorded(level(20), level(40), level(80, 900))], id="slow beyond the rate only"),
        pytest.param([recorded(level(p99=250, failed_percent=0.1))], id="exactly the limits"),
        pytest.param([recorded(level(p99=900), at="16T12:00"), recorded()], id="fixed since"),
        pytest.param([recorded(), recorded(level(80, 900), at=LATER)], id="later only overloaded"),
        pytest.param([recorded(), recorded(level(None), at=LATER)], id="later only a closed loop"),
        pytest.param([recorded(), recorded(level(p99=900), digest=OTHER, at=LATER)], id="another is slow"),
    ],
)
def test_load_test_shows_the_objective(events):
    assert failed(*events) == []


NO_TEST = "no recorded load test"


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], NO_TEST),
        ([recorded().model_copy(update={"load_test": None})], "another version of tritonstack"),
        ([recorded().model_copy(update={"kind": "deployed", "load_test": None})], NO_TEST),
        ([recorded(model="other")], NO_TEST),
        ([recorded(digest=OTHER)], "2026-11-17T12:00Z measured another artifact (cdcdcdcdcdcd)"),
        ([recorded(instance="ml.m5.large")], "ran on ml.m5.large"),
        ([recorded(at="03T00:00")], "2026-11-03T00:00Z is 15.5 days old"),
        ([recorded(commit="c" * 40 + "+uncommitted")], "cccccccc+uncommitted"),
        ([recorded(commit=None)], "files outside git"),
        ([recorded(level(None))], "closed loop, 8 users"),
        # too few requests per instance: as measured, after scaling out, and after scaling from zero
        ([recorded(*(level(rate, instances=2) for rate in (10, 60, 20)))], "is 30 requests"),
        ([recorded(level(60, instances=(1, 3)))], "is 20 to 60 requests"),
        ([recorded(level(30, instances=(0, 3)))], "is 10 or more requests"),
        # slow before or after scaling out, and since, with any number of instances
        ([recorded(level(60, 312, instances=(1, 3)))], "rate, 40, was not measured"),
        ([recorded(), recorded(level(80, 312, instances=(2, 4)), at=LATER)], "20 to 40 requests"),
        ([recorded(level(20, 312, is_trace=True))], "(the mean of a trace): p99 latency 312.0 ms"),
        ([recorded(real_instances=False)], "local cloud"),
        (
            [recorded(level(p99=312))],
            "40 requests per second and instance on 2026-11-17T12:00Z: p99 latency 312",
        ),
        ([recorded(level(20, p99=312, failed_percent=1.5))], "1.50 % of the requests"),
        ([recorded(level(80, p99=312))], "rate, 40, was not measured"),
        ([recorded(level(p99=None, answers=700))], "700 answers"),
        ([recorded(level(steady=False))], "not steady"),
        ([recorded(), recorded(level(p99=312), at=LATER)], "2026-11-18T11:00Z: p99 latency 312.0 ms"),
        # the best load test is explained
        ([recorded(level(20)), recorded(digest=OTHER, at=LATER)], "is 20 requests"),
    ],
)
def test_load_test_that_does_not_count(events, reason):
    (failure,) = failed(*events)
    assert reason in failure


def test_what_counts_depends_on_the_target():
    assert failed(recorded(commit=None), protected=False) == []
    local = PerformanceRequirement("search", "ml.c7i.xlarge", False, OBJECTIVE, "run `tritonstack bench`")
    candidate = PromotionCandidate("minilm", "cpu", OURS, performance=(local,))
    for real_instances in (True, False):
        assert failed(recorded(real_instances=real_instances), candidate=candidate) == []


def test_load_tests_are_no_verdicts_and_survive_their_json():
    event = recorded(level(p99=None))
    assert Event.model_validate_json(event.to_json()) == event
    assert "p99_ms" not in event.to_json()
    spec = PromotionSpec(source="dev")
    gates = evaluate_gates(spec, [CANDIDATE], [recorded()], NOON, served=("search",))
    assert [gate.gate for gate in gates if not gate.passed] == ["verified"]


def test_each_requirement_is_reported():
    other = PerformanceRequirement("chat", "ml.g5.xlarge", True, OBJECTIVE, "deploy it")
    both = PromotionCandidate("minilm", "cpu", OURS, performance=(REQUIRED, other))
    (failure,) = failed(recorded(), candidate=both)
    assert "ran on ml.c7i.xlarge" in failure
    assert failed(recorded(), recorded(instance="ml.g5.xlarge"), candidate=both) == []
