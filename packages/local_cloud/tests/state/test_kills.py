"""kill -9: the last snapshot is restored, and what came after it can be done again."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter
from packages.local_cloud.tests.conftest import REGION
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, role_of
from packages.local_cloud.tests.sagemaker.test_real_triton import scaling_by
from packages.local_cloud.tests.state.cloud_process import CloudProcess
from tritonstack.base.paths import find_project
from tritonstack_local.cloud_folder import read_address, start_ticks
from tritonstack_local.process import forget, stop

pytestmark = pytest.mark.soak


@pytest.fixture
def cloud(tmp_path):
    home = find_project(Path(__file__)).state_dir / "server"
    yield CloudProcess(tmp_path / "cloud", server_home=home)
    stop(state_dir=tmp_path / "cloud")


def test_endpoints_of_a_killed_cloud_are_restored(cloud):
    s3, sagemaker = cloud.account.client("s3"), cloud.account.client("sagemaker")
    s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="models", Key="a.tar.gz", Body=scaling_by(3))
    container = {"Image": IMAGE, "ModelDataUrl": "s3://models/a.tar.gz"}
    sagemaker.create_model(ModelName="m", ExecutionRoleArn=role_of(sagemaker), PrimaryContainer=container)
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[a_variant("m")])
    sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c")
    assert in_service(cloud) == tripled(cloud) == "InService"
    # A running endpoint does not depend on its configuration and model.
    sagemaker.delete_model(ModelName="m")
    await_snapshot(cloud)
    servers = children_of(cloud)
    cloud.kill()
    await_gone(servers)
    assert "1 endpoint is coming back" in cloud.start().notices
    assert in_service(cloud) == tripled(cloud) == "InService"
    cloud.account.client("sagemaker").delete_endpoint(EndpointName="e")
    while cloud.account.client("sagemaker").list_endpoints()["Endpoints"]:
        time.sleep(0.1)
    assert [path.name for path in (cloud.folder / "endpoints").rglob("*") if path.is_file()] == []


def test_state_is_kept_until_forget(cloud):
    cloud.account.client("ssm").put_parameter(Name="/p", Value="v", Type="String")
    stop(state_dir=cloud.folder)
    cloud.start()
    assert cloud.account.client("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "v"
    stop(state_dir=cloud.folder)
    assert forget(state_dir=cloud.folder)
    cloud.start()
    assert cloud.inventory() == []


def test_a_kill_loses_the_last_seconds_and_the_same_deployment_converges(cloud):
    stack, template = StackDriver(cloud.account), {"A": parameter(Name="/a")}
    assert stack.create(template) == "CREATE_COMPLETE"
    await_snapshot(cloud)
    later = {**template, "B": parameter({"Ref": "A"}, Name="/b")}
    for _ in range(3):
        StackDriver(cloud.account).begin_update(later)
        cloud.kill()
        assert not any("damaged" in notice for notice in cloud.start().notices)
    stack = StackDriver(cloud.account)
    assert stack.settled() in {"CREATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
    assert stack.update(later) == "UPDATE_COMPLETE"
    assert stack.delete() == "DELETE_COMPLETE"
    assert cloud.inventory() == []


def await_snapshot(cloud):
    """Wait until the state has been written at rest."""
    file, begun, deadline = cloud.folder / "state" / "snapshot", time.time(), time.monotonic() + 30
    while not file.exists() or file.stat().st_mtime < begun:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def in_service(cloud):
    while True:
        found = cloud.account.client("sagemaker").describe_endpoint(EndpointName="e")
        if found["EndpointStatus"] not in {"Creating", "Updating", "SystemUpdating"}:
            return found["EndpointStatus"]
        time.sleep(0.1)


def tripled(cloud):
    body = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
    answer = cloud.account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="e", ContentType="application/json", Body=json.dumps(body)
    )
    assert json.load(answer["Body"])["outputs"][0]["data"] == [3, 6]
    return "InService"


def children_of(cloud):
    address = read_address(cloud.folder)
    listed = subprocess.run(["pgrep", "-P", str(address.pid)], capture_output=True, text=True, check=True)
    return [int(pid) for pid in listed.stdout.split()]


def await_gone(pids):
    deadline = time.monotonic() + 20
    while any(start_ticks(pid) is not None for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
