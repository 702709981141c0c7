"""Instances of a variant: count, health checks, restarts, and logs."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import eventually, run_cloud
from packages.local_cloud.tests.sagemaker.fakes import FakeTritons
from tritonstack_local.sagemaker.dependencies import ServerSlots
from tritonstack_local.sagemaker.hosting import instances
from tritonstack_local.sagemaker.hosting.fleet import InstancePool

GROUP = "/aws/sagemaker/Endpoints/e"


def created(cloud, **variant):
    return cloud.create(environment={"FAKE_ANSWER": "yes"}, **variant)


def asked(cloud, body=b"ask"):
    return cloud.ask(body)


def scale(cloud, count):
    cloud.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": count}],
    )


def counts(described):
    (variant,) = described["ProductionVariants"]
    return variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]


def test_each_instance_has_its_own_server_folder_and_log_stream(cloud, tritons):
    assert counts(created(cloud, InitialInstanceCount=3)) == (3, 3)
    assert len({server.order.state_dir for server in tritons.started}) == 3
    cloud.delete()
    streams = cloud.client("logs").describe_log_streams(logGroupName=GROUP)["logStreams"]
    assert len(streams) == 3


def test_added_instances_serve_after_they_are_provisioned(tmp_path, tritons):
    with run_cloud(tmp_path, tritons, provisioning_minutes=200) as cloud:  # 0.4 seconds
        assert counts(created(cloud)) == (1, 1)
        assert asked(cloud) == "yes"
        began = time.monotonic()
        scale(cloud, 3)
        seen = cloud.described()
        assert (counts(seen), seen["EndpointStatus"]) == ((1, 3), "Updating")
        assert counts(cloud.settled()) == (3, 3)
        assert time.monotonic() - began >= 0.4
        scale(cloud, 1)
        assert counts(cloud.settled()) == (1, 1)
        scale(cloud, 2)


def test_a_small_machine_counts_the_instances_that_it_cannot_run(tmp_path, tritons):
    with run_cloud(tmp_path, tritons, machine=ServerSlots(cores=2)) as cloud:
        created(cloud)
        total = 0.0
        for count in (4, 5, 2, 10):
            scale(cloud, count)
            assert counts(cloud.settled()) == (2, count)
            asked(cloud)
            total += 1 / count
            eventually(lambda: cloud.metric("InvocationsPerInstance", "Sum") == pytest.approx((total,)))  # noqa: B023


def test_machine_counts_running_instances_and_at_least_one():
    crowded = ServerSlots(cores=8, instance_bytes=1 << 60)
    assert crowded.holds(3, running=0) == 1
    assert crowded.holds(3, running=2) == 2
    assert ServerSlots(cores=2, instance_bytes=1).holds(1, running=0) == 1


def test_scaling_loses_no_request(cloud, tritons):
    created(cloud, InitialInstanceCount=1)
    ended = threading.Event()

    def caller():
        while not ended.is_set():
            assert asked(cloud) == "yes"

    with ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(caller) for _ in range(3)]
        try:
            for count in (3, 1, 2):
                scale(cloud, count)
                assert cloud.described()["EndpointStatus"] in (
                    "Updating",
                    "InService",
                )
                assert counts(cloud.settled()) == (count, count)
        finally:
            ended.set()
        for one in callers:
            one.result()
    assert sum(server.running for server in tritons.started) == 2


def stage_of(cloud):
    """Return the reported stage of an update in progress."""
    deadline = time.monotonic() + 30
    while True:
        described = cloud.described()
        assert described["EndpointStatus"] == "Updating"
        (variant,) = described["ProductionVariants"]
        if "VariantStatus" in variant:
            return variant["VariantStatus"][0]["StatusMessage"]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_removed_instance_finishes_its_requests(cloud, tritons):
    created(cloud, InitialInstanceCount=2, RoutingConfig={"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"})
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(asked, cloud, b"hold") for _ in range(2)]
        for server in tritons.started:
            assert server.holding.wait(10)
        scale(cloud, 1)
        assert stage_of(cloud).endswith(" 1.")
        tritons.released.set()
        assert [one.result() for one in held] == ["held", "held"]
    assert counts(cloud.settled()) == (1, 1)


def test_a_variant_keeps_at_least_one_instance(cloud):
    created(cloud)
    with pytest.raises(ClientError, match="scale to zero"):
        scale(cloud, 0)
    assert asked(cloud) == "yes"


def test_a_request_longer_than_the_drain_timeout_completes():
    class Busy:
        available = True

    pool, instance = InstancePool(SimpleNamespace(routing="RANDOM")), Busy()
    pool.add([instance])
    assert pool.acquire_now(None) is instance
    pool.close()
    pool.drain(instance, timeout_s=0)
    pool.release(instance)
    assert pool.requests == 0


def test_a_server_that_dies_is_replaced_without_a_request(cloud, tritons):
    created(cloud)
    tritons.started[0].die()
    eventually(lambda: len(tritons.started) == 2 and tritons.started[1].ready)
    first, second = (server.order for server in tritons.started)
    assert first.model_root == second.model_root
    assert first.state_dir != second.state_dir
    assert cloud.settled()["EndpointStatus"] == "InService"
    assert asked(cloud) == "yes"


def test_a_failed_restart_is_retried(cloud, tritons, monkeypatch):
    created(cloud)

    def breaks(*_arguments):
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(FakeTritons, "__call__", breaks)
    tritons.started[0].die()
    assert asked(cloud) == "yes"
    assert len(tritons.started) == 2


def test_a_request_to_a_dead_server_is_sent_to_another(cloud, tritons):
    created(cloud, InitialInstanceCount=2)
    for server in tritons.started:
        server.die()
    assert asked(cloud) == "yes"


def test_a_restart_continues_the_log_stream(cloud, tritons):
    created(cloud)
    tritons.started[0].die()
    assert asked(cloud) == "yes"
    cloud.delete()
    logs = cloud.client("logs")
    (stream,) = logs.describe_log_streams(logGroupName=GROUP)["logStreams"]
    events = logs.get_log_events(
        logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True
    )["events"]
    assert sum("says hello" in event["message"] for event in events) == len(tritons.started) == 2


class Silent:
    """A running container that answers no ping; it ends after its second restart."""

    name, running, suspect = "silent", True, False

    def __init__(self):
        self.pings, self.restarts = 0, []

    def ended_within(self, _):
        return len(self.restarts) == 2 or self.pings == 100

    def answers_ping(self, _):
        self.pings += 1
        return False

    def restart(self):
        self.restarts.append(self.pings)


def test_each_restart_follows_as_many_failed_pings(monkeypatch):
    for pause in ("PING_EVERY_S", "PING_AGAIN_S"):
        monkeypatch.setattr(instances, pause, 0.0)
    silent = Silent()
    instances.watch(silent)
    assert silent.restarts == [instances.FAILED_PINGS, 2 * instances.FAILED_PINGS]
