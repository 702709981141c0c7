"""The metrics of an endpoint: requests, and resource use of instances."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import eventually
from tritonstack_local.sagemaker import metrics
from tritonstack_local.sagemaker.metrics import (
    Exchange,
    RequestMetrics,
)
from tritonstack_local.sagemaker.records import VariantKey
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale


@pytest.fixture
def endpoint(cloud):
    assert cloud.create(InitialInstanceCount=2)["EndpointStatus"] == "InService"
    return cloud


def statistics(cloud, name, **options):
    """Return sum, count, and maximum of all published values."""
    return cloud.metric(name, "Sum", "SampleCount", "Maximum", **options)


def published(cloud, name, *, samples, **options):
    eventually(lambda: statistics(cloud, name, **options)[1] >= samples)
    return statistics(cloud, name, **options)


def ask(cloud, body):
    try:
        cloud.runtime.invoke_endpoint(EndpointName="e", Body=body)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return None


def test_every_request_is_counted_with_its_result(endpoint):
    for body in (b"ask", b"ask", b"status=400", b"status=503", b"dead", b"slow"):
        ask(endpoint, body)
    totals = {
        name: published(endpoint, name, samples=6)[:2]
        for name in (
            "Invocations",
            "Invocation4XXErrors",
            "Invocation5XXErrors",
            "InvocationModelErrors",
        )
    }
    assert totals == {
        "Invocations": (6, 6),
        "Invocation4XXErrors": (1, 6),
        "Invocation5XXErrors": (3, 6),
        "InvocationModelErrors": (4, 6),
    }
    assert statistics(endpoint, "InvocationsPerInstance")[0] == 3  # zeros are published before and after


def test_model_latency_and_overhead_are_in_microseconds(endpoint):
    for _ in range(3):
        ask(endpoint, b"ask")
    for name in ("ModelLatency", "OverheadLatency"):
        total, samples, longest = published(endpoint, name, samples=3)
        assert samples == 3
        assert 0 < longest <= total < 60_000_000


def test_concurrent_requests_are_measured_while_they_run_and_without_any(endpoint, tritons):
    def busiest_is(number):
        eventually(lambda: statistics(endpoint, "ConcurrentRequestsPerModel")[2] == number)

    published(endpoint, "ConcurrentRequestsPerModel", samples=2)
    busiest_is(0)
    with ThreadPoolExecutor(4) as pool:
        held = [pool.submit(ask, endpoint, b"hold") for _ in range(4)]
        busiest_is(2)  # per instance
        tritons.released.set()
        assert [one.result() for one in held] == [None] * 4
    assert published(endpoint, "Invocations", samples=4)[0] == 4


@pytest.mark.parametrize("minute_s", [0.2, 1.0, 5.0, 60.0])
def test_a_request_counts_when_it_is_answered_however_late_it_is_published(monkeypatch, minute_s):
    clock = [1_000_000 * minute_s - 0.001 * minute_s]  # just before the end of a minute
    monkeypatch.setattr(metrics.time, "time", lambda: clock[0])
    data = []

    def measure(_variant, name, _value, _unit, *, at, times):
        data.append((name, at, times))

    monkeypatch.setattr(VariantKey, "measure", measure)
    variant = VariantKey(Scope("1" * 12, "eu-west-1"), "e", "v")
    found = RequestMetrics(time_scale=TimeScale(minute_s), concurrency=lambda: ())
    found._ended.set()
    found._thread.join()
    exchange = Exchange(status=200, model_s=0.1, overhead_s=0.0, instances=2, concurrent=1)
    found.note(variant, exchange)
    clock[0] += 0.002 * minute_s
    found.note(variant, exchange)
    clock[0] += 0.5
    found.publish()
    when = sorted(at / minute_s for name, at, _ in data if name == "Invocations")
    assert [int(minute) for minute in when] == [999_999, 1_000_000]
    assert sum(times for name, _, times in data if name == "Invocations") == 2


@pytest.mark.parametrize(
    ("name", "limit"),
    [("CPUUtilization", 100 * os.cpu_count()), ("MemoryUtilization", 100), ("DiskUtilization", 100)],
)
def test_each_instance_publishes_its_resource_use(endpoint, name, limit):
    total, _, largest = published(endpoint, name, samples=2, namespace="/aws/sagemaker/Endpoints")
    assert 0 <= largest <= limit
    # A process always occupies memory; an idle one may use no CPU time and write no files.
    assert total > 0 or name != "MemoryUtilization"
