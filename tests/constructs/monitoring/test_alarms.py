"""The alarms of an endpoint and their metrics; none fires without traffic."""

from typing import Any, get_args

import pytest

from tests.constructs.metric_math import evaluate
from tests.constructs.monitored_endpoints import (
    COMPONENT,
    NAME,
    TOPIC,
    monitored,
    of_type,
    resources,
    variant,
)
from tritonstack.constructs.monitoring.alarm_plan import endpoint_alarms
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms
from tritonstack.constructs.monitoring.monitored import Monitored
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId

EVERY = Alarms(
    latency_p99_ms=120,
    overhead_p99_ms=80,
    server_errors=3,
    client_errors=40,
    min_invocations=25,
    gpu_memory_percent=90,
    triton_errors=7,
    backlog=200,
)
NONE = Alarms(**dict.fromkeys(Alarms.model_fields))
GPU = "ml.g5.12xlarge"


def made(endpoint: Monitored, alarms: Alarms = EVERY, topic: str | None = TOPIC) -> dict[str, dict[str, Any]]:
    """Return the alarms of a stack by name."""
    template = resources(
        lambda stack: EndpointAlarms(stack, "Alarms", monitored=endpoint, alarms=alarms, topic_arn=topic)
    )
    return {item["AlarmName"]: item for item in of_type(template, "AWS::CloudWatch::Alarm").values()}


@pytest.fixture(scope="module")
def plain() -> dict[str, dict[str, Any]]:
    return made(monitored(variant(instance=GPU)))


@pytest.fixture(scope="module")
def queued() -> dict[str, dict[str, Any]]:
    return made(monitored(variant(instance=GPU), asynchronous=True))


@pytest.fixture(scope="module")
def copied() -> dict[str, dict[str, Any]]:
    return made(monitored(variant(instance=GPU), component=COMPONENT))


def looked_at(alarm: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Return the inputs of an alarm's expression: namespace, metric, and statistic by key."""
    metrics = {}
    for query in alarm["Metrics"]:
        if not query["ReturnData"]:
            stat = query["MetricStat"]
            metrics[query["Id"]] = (stat["Metric"]["Namespace"], stat["Metric"]["MetricName"], stat["Stat"])
            assert stat["Period"] == 300
    return metrics


def expression(alarm: dict[str, Any]) -> str:
    (text,) = [query["Expression"] for query in alarm["Metrics"] if query["ReturnData"]]
    return str(text)


def fires(alarm: dict[str, Any], **values: float | None) -> bool:
    """Return whether one period with these values (None: no data) breaches the threshold."""
    value = evaluate(expression(alarm), values)
    if value is None:
        return bool(alarm["TreatMissingData"] == "breaching")
    below = alarm["ComparisonOperator"] == "LessThanThreshold"
    return value < alarm["Threshold"] if below else value >= alarm["Threshold"]


def test_loading_a_model_does_not_count_as_overhead():
    """SageMaker counts it in OverheadLatency and publishes ModelLoadingWaitTime for requests that waited."""
    alarm = made(monitored(multi_model=True))[f"{NAME}-overhead-p99"]
    assert looked_at(alarm) == {
        "overhead": ("AWS/SageMaker", "OverheadLatency", "p99"),
        "loading": ("AWS/SageMaker", "ModelLoadingWaitTime", "Maximum"),
    }
    assert not fires(alarm, overhead=4_060_000, loading=4_000_000)
    assert fires(alarm, overhead=4_080_000, loading=4_000_000)
    assert fires(alarm, overhead=80_000, loading=None)
    assert not fires(alarm, overhead=79_999, loading=None)
    assert not fires(alarm, overhead=None, loading=None)


def test_the_invocation_drop_alarm_fires_on_little_traffic_but_not_without_any(plain):
    drop = plain[f"{NAME}-invocation-drop"]
    assert looked_at(drop) == {"calls": ("AWS/SageMaker", "Invocations", "Sum")}
    assert fires(drop, calls=24)
    assert not fires(drop, calls=25)
    assert not fires(drop, calls=0)
    assert not fires(drop, calls=None)
    # The first and the last period of a day's traffic are never full.
    assert drop["EvaluationPeriods"] == 2


def test_gpu_memory_is_summed_per_instance_and_needs_traffic(plain):
    memory = plain[f"{NAME}-gpu-memory"]
    assert looked_at(memory) == {
        "memory": ("/aws/sagemaker/Endpoints", "GPUMemoryUtilization", "Maximum"),
        "calls0": ("AWS/SageMaker", "Invocations", "Sum"),
    }
    # Four GPUs at 90 %.
    assert memory["Threshold"] == 360
    assert fires(memory, memory=361, calls0=1)
    assert not fires(memory, memory=359, calls0=1)
    assert not fires(memory, memory=400, calls0=0)
    assert not fires(memory, memory=400, calls0=None)
    assert not fires(memory, memory=None, calls0=5)


def test_no_alarm_fires_without_traffic(plain, queued, copied):
    """No data at all, and zeros if something is published nevertheless."""
    for alarm in [*plain.values(), *queued.values(), *copied.values()]:
        assert alarm["TreatMissingData"] == "notBreaching"
        if "Metrics" in alarm:
            keys = looked_at(alarm)
            assert not fires(alarm, **dict.fromkeys(keys))
            assert not fires(alarm, **dict.fromkeys(keys, 0))
        else:
            assert alarm["ComparisonOperator"].startswith("GreaterThan")
            assert alarm["Threshold"] > 0


def test_an_alarm_without_a_threshold_is_omitted():
    assert made(monitored(variant(instance=GPU), asynchronous=True), NONE) == {}
    only = NONE.model_copy(update={"backlog": 5})
    assert list(made(monitored(asynchronous=True), only)) == [f"{NAME}-backlog"]


def test_every_kind_of_alarm_is_in_the_table(plain, queued):
    ends = {name.removeprefix(f"{NAME}-") for name in (*plain, *queued)}
    assert ends == set(get_args(AlarmId))


def test_a_shadows_errors_in_the_shared_log_fire_no_alarm():
    both = [variant(), variant("shadow", shadow=True)]
    assert "triton-errors" not in {alarm.id for alarm in endpoint_alarms(monitored(*both), EVERY)}
    assert "triton-errors" in {alarm.id for alarm in endpoint_alarms(monitored(both[0]), EVERY)}


def test_rollback_alarms_keep_the_requested_order():
    endpoint = monitored(variant(), variant("challenger"))
    names: list[list[str]] = []

    def build(stack: Any) -> None:
        alarms = EndpointAlarms(stack, "Alarms", monitored=endpoint, alarms=EVERY)
        names.append(alarms.rollback_names(("server-errors", "latency-p99", "gpu-memory")))
        names.append(alarms.all_names)

    resources(build)
    assert names[0] == [
        f"{NAME}-server-errors",
        f"{NAME}-challenger-server-errors",
        f"{NAME}-latency-p99",
        f"{NAME}-challenger-latency-p99",
    ]
    assert len(names[1]) == 11
