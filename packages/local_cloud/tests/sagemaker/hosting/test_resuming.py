"""Restore endpoints from the tables of an earlier cloud."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import FAST, run_cloud
from tritonstack_local.sagemaker import SageMakerApp
from tritonstack_local.settings import TimeScale

BAKING = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
        "TerminationWaitInSeconds": 3600,
    }
}
SLOW = TimeScale(minute_s=60)


@pytest.fixture
def clouds(tmp_path, tritons):
    """Start clouds one after the other, each with the persisted tables of the previous one."""
    stored, account = {}, None

    @contextmanager
    def next_cloud(time_scale=SLOW):
        nonlocal account

        def make_app(dependencies):
            return SageMakerApp(dependencies=dependencies, start_server=tritons)

        for cloud in run_cloud(make_app, tmp_path, time_scale=time_scale):
            account = cloud.account = account or cloud.account
            for name, left in stored.items():
                for scope, record in pickle.loads(left):  # noqa: S301 - our own
                    cloud.app.tables[name].add(scope, record)
            cloud.app.resume()
            yield cloud
        for name in ("models", "configs", "endpoints"):
            stored[name] = pickle.dumps(cloud.app.tables[name].everywhere())

    return next_cloud


def created(cloud, name="e", *, settled=True, **environment):
    cloud.model(name, environment={"FAKE_ANSWER": name, **environment})
    cloud.config(name, InitialInstanceCount=2)
    cloud.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return cloud.settled(name) if settled else None


def asked(cloud, name="e"):
    return cloud.runtime.invoke_endpoint(EndpointName=name, Body=b"ask")["Body"].read().decode()


def test_an_endpoint_is_restored_without_its_configuration(clouds):
    with clouds() as cloud:
        created(cloud)
        cloud.sagemaker.delete_endpoint_config(EndpointConfigName="e")
        cloud.sagemaker.delete_model(ModelName="e")
    with clouds() as cloud:
        assert asked(cloud) == "e", "a request that comes too early waits"
        described = cloud.settled("e")
        assert described["EndpointStatus"] == "InService"
        assert described["EndpointConfigName"] == "e"
        assert "FailureReason" not in described
        assert described["ProductionVariants"][0]["CurrentInstanceCount"] == 2


def test_an_interrupted_update_is_dropped(clouds):
    with clouds() as cloud:
        created(cloud)
        cloud.model("new", environment={"FAKE_ANSWER": "new"})
        cloud.config("new")
        cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="new", DeploymentConfig=BAKING)
        until(lambda: asked(cloud) == "new")
    with clouds(time_scale=FAST) as cloud:
        described = cloud.settled("e")
        assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "e")
        assert "PendingDeploymentSummary" not in described
        assert asked(cloud) == "e"
        cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="new")
        assert cloud.settled("e")["EndpointConfigName"] == "new"


def test_an_interrupted_creation_is_completed_unless_it_is_deleted(clouds, tritons):
    with clouds() as cloud:
        for name in ("e", "f"):
            created(cloud, name, settled=False, FAKE_STARTS="never")
        until(lambda: len(tritons.started) == 4)
        for server in tritons.started:
            if server.order.environment["FAKE_ANSWER"] == "e":
                server.order.environment["FAKE_STARTS"] = "yes"
    with clouds() as cloud:
        assert cloud.settled("e")["EndpointStatus"] == "InService"
        assert asked(cloud) == "e"
        cloud.sagemaker.delete_endpoint(EndpointName="f")
        cloud.gone("f")


def test_an_interrupted_deletion_resumes(clouds, tritons):
    with clouds() as cloud:
        created(cloud)
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(cloud.runtime.invoke_endpoint, EndpointName="e", Body=b"hold")
            until(lambda: any(server.holding.is_set() for server in tritons.started))
            cloud.sagemaker.delete_endpoint(EndpointName="e")
            stored_while_deleting = cloud.sagemaker.describe_endpoint(EndpointName="e")["EndpointStatus"]
            tritons.released.set()
            held.result()
        assert stored_while_deleting == "Deleting"
        cloud.gone("e")
    with clouds() as cloud:
        assert cloud.endpoint_names() == []


def test_an_endpoint_whose_server_no_longer_starts_fails_with_a_reason(clouds, tritons):
    with clouds() as cloud:
        created(cloud)
        for server in tritons.started:
            server.order.environment["FAKE_STARTS"] = "no"
    with clouds() as cloud:
        described = cloud.settled("e")
        assert described["EndpointStatus"] == "Failed"
        assert "no such tensor" in described["FailureReason"]
        with pytest.raises(ClientError, match="not found"):
            asked(cloud)


def until(true):
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
