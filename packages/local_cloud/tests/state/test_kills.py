"""kill -9 at any moment: acknowledged changes are kept, unfinished ones rolled back."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from packages.local_cloud.tests.cloudformation.stacks import StackDriver, parameter, resource
from packages.local_cloud.tests.conftest import REGION
from packages.local_cloud.tests.sagemaker.cloud import IMAGE, a_variant, role_of
from packages.local_cloud.tests.sagemaker.test_real_triton import scaling_by
from packages.local_cloud.tests.state.cloud_process import CloudProcess
from tritonstack.base.paths import find_project
from tritonstack_local.cloud_folder import read_address, start_ticks
from tritonstack_local.process import forget, stop

pytestmark = pytest.mark.soak

KILLS = 8
SEED = 20261121


@pytest.fixture
def cloud(tmp_path):
    home = find_project(Path(__file__)).state_dir / "server"
    yield CloudProcess(tmp_path / "cloud", server_home=home)
    stop(state_dir=tmp_path / "cloud")


def uploads(account, kept, ended):
    """Put objects while the cloud answers, and record the acknowledged ones."""
    s3, number = account.client("s3"), len(kept)
    with suppress(ClientError, BotoCoreError):
        while not ended.is_set():
            number += 1
            body = bytes([number % 256]) * (number * 977 % 200_000)
            s3.put_object(Bucket="kept", Key=str(number), Body=body)
            kept[str(number)] = hashlib.sha256(body).hexdigest()


def deployments(account, ended):
    """Create, change, and delete a stack while the cloud answers."""
    stack = StackDriver(account, "subject")
    with suppress(ClientError, BotoCoreError):
        for number in range(1000):
            if ended.is_set():
                return
            templates = [network(number), network(number + 1)]
            if number % 2:
                templates.append(
                    {
                        **network(number + 2),
                        "Bad": resource(
                            "AWS::KMS::Alias", "Route", AliasName="alias/bad", TargetKeyId="no-such-key"
                        ),
                    }
                )
            stack.create(templates[0])
            for template in templates[1:]:
                stack.update(template)
            stack.delete()


def network(number):
    """Resources with ids from the service, generated names, and their own names."""
    return {
        "Vpc": resource("AWS::EC2::VPC", CidrBlock=f"10.{number % 3}.0.0/16"),
        "Subnet": resource("AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock=f"10.{number % 3}.1.0/24"),
        "Route": resource("AWS::EC2::RouteTable", VpcId={"Ref": "Vpc"}),
        "Group": resource("AWS::EC2::SecurityGroup", GroupDescription="g", VpcId={"Ref": "Vpc"}),
        "Store": resource("AWS::S3::Bucket"),
        "Topic": resource("AWS::SNS::Topic"),
        "Role": resource("AWS::IAM::Role", AssumeRolePolicyDocument={"Statement": []}),
        "Name": parameter({"Ref": "Topic"}, Name=f"/name/{number % 2}"),
    }


def test_random_kills_lose_and_leak_nothing(cloud):
    moments = random.Random(SEED)  # noqa: S311 - the same ones every time
    cloud.account.client("s3").create_bucket(
        Bucket="kept", CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    expected = {("s3", "Bucket", "kept")}
    kept: dict[str, str] = {}
    for _ in range(KILLS):
        ended = threading.Event()
        workers = [
            threading.Thread(target=uploads, args=(cloud.account, kept, ended)),
            threading.Thread(target=deployments, args=(cloud.account, ended)),
        ]
        for worker in workers:
            worker.start()
        time.sleep(moments.uniform(0.3, 3))
        cloud.kill()
        ended.set()
        for worker in workers:
            worker.join()
        cloud.start()
        s3 = cloud.account.client("s3")
        found = {
            key: hashlib.sha256(s3.get_object(Bucket="kept", Key=key)["Body"].read()).hexdigest()
            for key in kept
        }
        assert found == kept
        bring_to_nothing(StackDriver(cloud.account, "subject"))
        left = {(item["service"], item["type"], item["id"]) for item in cloud.inventory()}
        assert left == expected
    assert kept


def bring_to_nothing(stack):
    """After a kill at any point, the stack becomes stable and can be deleted."""
    with suppress(ClientError):
        assert stack.settled() in {
            "CREATE_COMPLETE",
            "ROLLBACK_COMPLETE",
            "UPDATE_COMPLETE",
            "UPDATE_ROLLBACK_COMPLETE",
            "REVIEW_IN_PROGRESS",
        }, stack.reasons()
        assert stack.delete() == "DELETE_COMPLETE", stack.reasons()


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
