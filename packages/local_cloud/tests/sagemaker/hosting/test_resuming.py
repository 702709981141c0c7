"""Restore endpoints from the state of an earlier cloud."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import FAST, eventually, run_cloud
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
    """Start clouds one after the other, each with the state of the previous one."""

    def next_cloud(time_scale=SLOW):
        return run_cloud(tmp_path, tritons, account="100000000000", time_scale=time_scale)

    return next_cloud


def created(cloud, name="e", *, settled=True, **environment):
    return cloud.create(name, settled=settled, environment=environment, InitialInstanceCount=2)


def test_an_endpoint_is_restored_without_its_configuration(clouds):
    with clouds() as cloud:
        created(cloud)
        cloud.sagemaker.delete_endpoint_config(EndpointConfigName="e")
        cloud.sagemaker.delete_model(ModelName="e")
    with clouds() as cloud:
        assert cloud.ask() == "e", "a request that comes too early waits"
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
        eventually(lambda: cloud.ask() == "new")
    with clouds(time_scale=FAST) as cloud:
        described = cloud.settled("e")
        assert (described["EndpointStatus"], described["EndpointConfigName"]) == ("InService", "e")
        assert "PendingDeploymentSummary" not in described
        assert cloud.ask() == "e"
        cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="new")
        assert cloud.settled("e")["EndpointConfigName"] == "new"


def test_an_interrupted_creation_is_completed_unless_it_is_deleted(clouds, tritons):
    with clouds() as cloud:
        for name in ("e", "f"):
            created(cloud, name, settled=False, FAKE_STARTS="never")
        eventually(lambda: len(tritons.started) == 4)
        for server in tritons.started:
            if server.order.environment["FAKE_ANSWER"] == "e":
                server.order.environment["FAKE_STARTS"] = "yes"
    with clouds() as cloud:
        assert cloud.settled("e")["EndpointStatus"] == "InService"
        assert cloud.ask() == "e"
        cloud.delete("f")


def test_an_interrupted_deletion_resumes(clouds, tritons):
    with clouds() as cloud:
        created(cloud)
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(cloud.runtime.invoke_endpoint, EndpointName="e", Body=b"hold")
            eventually(lambda: any(server.holding.is_set() for server in tritons.started))
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
            cloud.ask()
