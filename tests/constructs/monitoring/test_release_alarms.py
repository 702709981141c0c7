"""Rollback alarms of updates in parts: a bad release triggers them, an overload does not."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.constructs.metric_math import evaluate
from tests.constructs.monitored_endpoints import NAME, monitored, of_type, resources, variant
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms, compares_instances
from tritonstack.constructs.monitoring.monitored import Monitored
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId, AllAtOnce, Canary, Linear, Rolling

ALARMS = Alarms(latency_p99_ms=500, server_errors=5, client_errors=50)
LIMIT_US = 500_000
KINDS: tuple[AlarmId, ...] = ("latency-p99", "server-errors", "client-errors")

Reply = tuple[int, int, float]
"""How many replies, their status, and their latency in seconds."""


def made(endpoint: Monitored, alarms: Alarms = ALARMS, ids: Sequence[AlarmId] = KINDS) -> dict[str, Any]:
    """Return all alarms of an endpoint with compared kinds."""
    template = resources(
        lambda stack: EndpointAlarms(stack, "Alarms", monitored=endpoint, alarms=alarms, compared=ids)
    )
    return {item["AlarmName"]: item for item in of_type(template, "AWS::CloudWatch::Alarm").values()}


@pytest.fixture(scope="module")
def single() -> dict[str, Any]:
    return made(monitored())


@pytest.fixture(scope="module")
def shared() -> dict[str, Any]:
    return made(monitored(multi_model=True))


def metrics_of(replies: Sequence[Reply]) -> dict[str, float | None]:
    """Return what SageMaker would publish about a minute."""
    latencies = sorted(latency * 1e6 for count, _, latency in replies for _ in range(count))
    calls = len(latencies)

    def having(first: int) -> float:
        return float(sum(count for count, status, _ in replies if status // 100 * 100 == first))

    return {
        "calls": calls or None,
        "replies": calls or None,
        "fast": 100 * sum(value <= LIMIT_US for value in latencies) / calls if calls else None,
        "slowest": latencies[int(0.99 * (calls - 1))] if calls else None,
        "failed": having(500),
        "rejected": having(400),
    }


def bad(alarms: dict[str, Any], kind: str, *replies: Reply) -> bool:
    """Return whether a minute with these replies counts as bad."""
    alarm = alarms[f"{NAME}-{kind}-rollout"]
    (expression,) = [query["Expression"] for query in alarm["Metrics"] if query["ReturnData"]]
    value = evaluate(expression, metrics_of(replies), period_s=60)
    assert value is not None
    return value >= alarm["Threshold"]


OLD = (50, 200, 0.05)
REJECTED = (300, 503, 0.001)
WAITED = (100, 200, 5.0)


@pytest.mark.parametrize(
    ("kind", "replies"),
    [
        ("server-errors", [OLD, (50, 500, 0.002)]),
        ("server-errors", [OLD, (2, 500, 0.002)]),
        ("server-errors", [(99, 500, 0.002)]),
        ("server-errors", [OLD, (30, 500, 60.0)]),
        ("server-errors", [OLD, (50, 504, 60.0)]),
        ("server-errors", [(20, 200, 0.05), (300, 500, 0.001)]),
        ("latency-p99", [OLD, (50, 200, 0.9)]),
        ("latency-p99", [OLD, (5, 200, 0.9)]),
        ("latency-p99", [OLD, (20, 503, 0.001), (30, 200, 5.0)]),
        ("latency-p99", [OLD, (50, 504, 60.0)]),
    ],
    ids=[
        "half of the answers fail",
        "few fail",
        "all fail after the last step",
        "some hang",
        "all new ones hang",
        "failing instances attract requests",
        "half of the answers are slow",
        "few are slow",
        "too slow for its share",
        "all new ones hang: latency",
    ],
)
def test_a_bad_release_rolls_back(single, kind, replies):
    assert bad(single, kind, *replies)


@pytest.mark.parametrize("kind", ["latency-p99", "server-errors"])
@pytest.mark.parametrize(
    "replies",
    [
        [REJECTED, WAITED],
        [WAITED],
        [(9_000, 503, 0.001), WAITED],
        [WAITED, (20, 503, 30.0)],
        [(50, 200, 30.0), (50, 504, 60.0)],
        [(95, 200, 40.0), (5, 504, 60.0)],
        [(100, 504, 60.0)],
        [],
    ],
    ids=[
        "rejections and waits",
        "only waits",
        "mostly rejections",
        "timeouts in the queue",
        "half exceed the time limit of SageMaker",
        "few exceed the time limit of SageMaker",
        "all exceed the time limit of SageMaker",
        "no traffic",
    ],
)
def test_an_overload_rolls_back_nothing(single, kind, replies):
    assert not bad(single, kind, *replies)


def test_the_minutes_in_which_an_overload_begins_and_ends_are_too_few(single):
    for kind in ("latency-p99", "server-errors"):
        alarm = single[f"{NAME}-{kind}-rollout"]
        assert bad(single, kind, (500, 200, 0.05), REJECTED, WAITED)
        assert (alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (5, 3)
        assert {query["MetricStat"]["Period"] for query in alarm["Metrics"] if "MetricStat" in query} == {60}


def test_rejections_of_multi_model_endpoints_are_client_errors(shared):
    """In that mode, Triton answers its own errors with 400."""
    rejected = (300, 400, 0.001)
    for kind in KINDS:
        assert not bad(shared, kind, rejected, WAITED)
    assert bad(shared, "client-errors", OLD, (50, 400, 0.002))


def test_enough_bad_minutes_have_as_many_errors_as_the_endpoints_own_alarm(single):
    for kind in ("server-errors", "client-errors"):
        own, compared = single[f"{NAME}-{kind}"], single[f"{NAME}-{kind}-rollout"]
        assert compared["DatapointsToAlarm"] * compared["Threshold"] >= own["Threshold"]


def test_each_variant_is_compared_and_omitted_alarms_are_not():
    both = monitored(variant(), variant("challenger"))
    names = {name for name in made(both, ids=("latency-p99", "gpu-memory")) if name.endswith("-rollout")}
    assert names == {f"{NAME}-latency-p99-rollout", f"{NAME}-challenger-latency-p99-rollout"}
    without = Alarms(latency_p99_ms=None, server_errors=None)
    assert not [name for name in made(monitored(), without) if "latency" in name or "server" in name]


def test_updates_in_parts_compare_instances():
    parts = [Canary(strategy="canary"), Linear(strategy="linear"), Rolling(strategy="rolling")]
    assert all(compares_instances(rollout, asynchronous=False) for rollout in parts)
    assert not any(compares_instances(rollout, asynchronous=True) for rollout in parts)
    assert not compares_instances(AllAtOnce(), asynchronous=False)


def test_a_good_release_rolls_back_nothing(single):
    for kind in ("latency-p99", "server-errors"):
        assert not bad(single, kind, (100, 200, 0.05), (1, 500, 0.05))
