"""AWS's clients and this project's client with one local cloud.

boto3, the AWS CLI and the SageMaker SDK are used as their manuals show them; none is given an address: what
`tritonstack up --shell` exports tells them all.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest
from botocore.exceptions import ClientError

from tests.contract import models
from tests.contract.bodies import numbers
from tests.contract.drivers import QUICK
from tests.e2e.conftest import furnished_site
from tritonstack.client import AccessDeniedError, EndpointClient, ModelFailedError
from tritonstack.client.light import LightRuntime

pytestmark = pytest.mark.e2e

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:24.09-py3"
ROLE = "arn:aws:iam::000000000000:role/endpoint"
BUCKET = "clients"
ONE, MANY = "one-model", "many-models"
LOG_GROUP = f"/aws/sagemaker/Endpoints/{ONE}"
TEMPLATE = json.dumps(
    {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "told"}}},
        "Outputs": {"Topic": {"Value": {"Ref": "Topic"}}},
    }
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables that `tritonstack up --shell` exports, in this process too."""
    root = tmp_path_factory.mktemp("site")
    for name in ("models", "environments"):
        (root / name).mkdir()
    here = furnished_site(root, shared=("server",))
    lines = here.tritonstack("up", "--detach", "--shell").splitlines()
    pairs = [line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export ")]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in pairs:
            patch.setenv(name, value)
        boto3.setup_default_session()  # an earlier test's session may remember other credentials
        yield dict(pairs)
        boto3.setup_default_session()
    here.tritonstack("down")


@pytest.fixture(scope="module")
def archives(exported: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the models' archives."""
    del exported
    folder = tmp_path_factory.mktemp("laid")
    models.lay_out(folder)
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    for archive in (folder / "archives").rglob("*.tar.gz"):
        s3.upload_file(str(archive), BUCKET, str(archive.relative_to(folder / "archives")))
    return f"s3://{BUCKET}"


def deploy(name: str, **container: Any) -> None:
    sagemaker = boto3.client("sagemaker")
    container = {"Image": IMAGE, "Environment": QUICK, **container}
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        "InstanceType": "ml.c7i.xlarge",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


@pytest.fixture(scope="module")
def endpoints(archives: str) -> tuple[str, str]:
    """Two endpoints, one of a single model and one of many, awaited with boto3's waiters."""
    deploy(ONE, ModelDataUrl=f"{archives}/single.tar.gz")
    deploy(MANY, ModelDataUrl=f"{archives}/", Mode="MultiModel")
    waiter = boto3.client("sagemaker").get_waiter("endpoint_in_service")
    for name in (ONE, MANY):
        waiter.wait(EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
    return ONE, MANY


def eventually(look: Callable[[], Any]) -> Any:
    """Return the result of `look` once there is one: logs and metrics arrive after the request."""
    deadline = time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.2)
    return found


def invoke(name: str, value: float, **fields: str) -> Any:
    runtime = boto3.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(
        EndpointName=name, Body=numbers(value), ContentType="application/json", **fields
    )
    return json.loads(answer["Body"].read())["outputs"][0]["data"]


class TestBoto3:
    def test_caller_identity_is_the_exported_account(self, exported: dict[str, str]) -> None:
        identity = boto3.client("sts").get_caller_identity()
        assert identity["Account"] == exported["CDK_DEFAULT_ACCOUNT"]

    def test_both_endpoints_answer(self, endpoints: tuple[str, str]) -> None:
        one, many = endpoints
        assert invoke(one, 4) == [8]
        assert invoke(many, 4, TargetModel=models.DOUBLE_TARGET) == [8]
        assert invoke(many, 4, TargetModel=models.CHAIN_TARGET) == [24]

    def test_model_error_keeps_its_status_and_message(self, endpoints: tuple[str, str]) -> None:
        with pytest.raises(ClientError) as caught:
            invoke(endpoints[0], models.REJECTS)
        told = caught.value.response
        assert told["Error"]["Code"] == "ModelError"
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 424
        assert told["OriginalStatusCode"] == 500
        assert "minus one is no input" in told["OriginalMessage"]
        assert LOG_GROUP in told["LogStreamArn"]

    @pytest.mark.parametrize(
        ("operation", "field", "name"),
        [
            ("list_endpoints", "Endpoints", "EndpointName"),
            ("list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"),
            ("list_models", "Models", "ModelName"),
        ],
    )
    def test_paginators_turn_every_page(
        self, endpoints: tuple[str, str], operation: str, field: str, name: str
    ) -> None:
        paginator = boto3.client("sagemaker").get_paginator(operation)
        pages = list(paginator.paginate(PaginationConfig={"PageSize": 1}))
        assert [len(page[field]) for page in pages if page[field]] == [1] * len(endpoints)
        assert {page[field][0][name] for page in pages if page[field]} == set(endpoints)

    def test_paginators_of_other_services(self, endpoints: tuple[str, str]) -> None:
        del endpoints
        objects = boto3.client("s3").get_paginator("list_objects_v2")
        pages = list(objects.paginate(Bucket=BUCKET, PaginationConfig={"PageSize": 1}))
        assert len(pages) == 4
        streams = boto3.client("logs").get_paginator("describe_log_streams")
        assert eventually(lambda: streams.paginate(logGroupName=LOG_GROUP).build_full_result()["logStreams"])

    def test_the_log_can_be_read(self, endpoints: tuple[str, str]) -> None:
        events = boto3.client("logs").get_paginator("filter_log_events")
        assert endpoints

        def started() -> list[Any]:
            found = events.paginate(logGroupName=LOG_GROUP, filterPattern="HTTPService").build_full_result()
            return list(found["events"])

        assert "HTTPService" in eventually(started)[0]["message"]

    def test_a_stack_is_awaited_and_described(self, exported: dict[str, str]) -> None:
        assert exported
        cloudformation = boto3.client("cloudformation")
        cloudformation.create_stack(StackName="by-boto3", TemplateBody=TEMPLATE.replace("told", "by-boto3"))
        quick = {"Delay": 1, "MaxAttempts": 60}
        cloudformation.get_waiter("stack_create_complete").wait(StackName="by-boto3", WaiterConfig=quick)
        stacks = cloudformation.get_paginator("describe_stacks").paginate().build_full_result()["Stacks"]
        (stack,) = [stack for stack in stacks if stack["StackName"] == "by-boto3"]
        assert stack["Outputs"][0]["OutputValue"].endswith(":by-boto3")
        cloudformation.delete_stack(StackName="by-boto3")
        cloudformation.get_waiter("stack_delete_complete").wait(StackName="by-boto3", WaiterConfig=quick)

    def test_deletion_of_an_endpoint_is_awaited(self, archives: str) -> None:
        sagemaker = boto3.client("sagemaker")
        deploy("short-lived", ModelDataUrl=f"{archives}/single.tar.gz")
        quick = {"Delay": 1, "MaxAttempts": 120}
        sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="short-lived", WaiterConfig=quick)
        sagemaker.delete_endpoint(EndpointName="short-lived")
        sagemaker.get_waiter("endpoint_deleted").wait(EndpointName="short-lived", WaiterConfig=quick)
        with pytest.raises(ClientError, match="Could not find endpoint"):
            sagemaker.describe_endpoint(EndpointName="short-lived")
        sagemaker.delete_endpoint_config(EndpointConfigName="short-lived")
        sagemaker.delete_model(ModelName="short-lived")


@pytest.mark.skipif(not shutil.which("aws"), reason="the AWS CLI (awscli) is not installed")
class TestAwsCli:
    def aws(self, *arguments: str) -> str:
        done = subprocess.run(["aws", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self.aws(*arguments, "--output", "json"))

    def test_caller_identity_is_the_exported_account(self, exported: dict[str, str]) -> None:
        assert self.read("sts", "get-caller-identity")["Account"] == exported["CDK_DEFAULT_ACCOUNT"]

    def test_an_endpoint_is_described_and_awaited(self, endpoints: tuple[str, str]) -> None:
        described = self.read("sagemaker", "describe-endpoint", "--endpoint-name", endpoints[0])
        assert described["EndpointStatus"] == "InService"
        self.aws("sagemaker", "wait", "endpoint-in-service", "--endpoint-name", endpoints[0])
        listed = self.aws(
            "sagemaker", "list-endpoints", "--query", "Endpoints[].EndpointName", "--output", "text"
        )
        assert set(listed.split()) == set(endpoints)

    def test_endpoints_are_invoked(self, endpoints: tuple[str, str], tmp_path: Path) -> None:
        body, answer = tmp_path / "body.json", tmp_path / "answer.json"
        body.write_bytes(numbers(4))
        for name, more in ((endpoints[0], ()), (endpoints[1], ("--target-model", models.DOUBLE_TARGET))):
            arguments = ("--endpoint-name", name, "--content-type", "application/json", *more)
            self.aws(
                "sagemaker-runtime", "invoke-endpoint", *arguments, "--body", f"fileb://{body}", str(answer)
            )
            assert json.loads(answer.read_text())["outputs"][0]["data"] == [8]

    def test_a_models_error_is_an_error(self, endpoints: tuple[str, str], tmp_path: Path) -> None:
        body = tmp_path / "body.json"
        body.write_bytes(numbers(models.REJECTS))
        arguments = ("--endpoint-name", endpoints[0], "--body", f"fileb://{body}", str(tmp_path / "answer"))
        done = subprocess.run(
            ["aws", "sagemaker-runtime", "invoke-endpoint", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (254, 255)  # of its two major versions
        assert "(ModelError)" in done.stderr
        assert "minus one is no input" in done.stderr

    def test_files_are_copied(self, archives: str, tmp_path: Path) -> None:
        here, back = tmp_path / "here", tmp_path / "back"
        here.write_bytes(os.urandom(9_000_000))  # large enough to go in parts
        self.aws("s3", "cp", str(here), f"{archives}/copied/here", "--only-show-errors")
        self.aws("s3", "cp", f"{archives}/copied/here", str(back), "--only-show-errors")
        assert back.read_bytes() == here.read_bytes()
        assert "9000000 here" in self.aws("s3", "ls", f"{archives}/copied/")
        self.aws("s3", "rm", f"{archives}/copied/", "--recursive", "--only-show-errors")

    def test_a_stack_is_deployed_and_described(self, exported: dict[str, str], tmp_path: Path) -> None:
        assert exported
        template = tmp_path / "template.json"
        template.write_text(TEMPLATE.replace("told", "by-cli"))
        name = ("--stack-name", "by-cli")
        self.aws("cloudformation", "deploy", *name, "--template-file", str(template))
        (stack,) = self.read("cloudformation", "describe-stacks", *name)["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        self.aws("cloudformation", "delete-stack", *name)
        self.aws("cloudformation", "wait", "stack-delete-complete", *name)

    def test_logs_are_read(self, endpoints: tuple[str, str]) -> None:
        assert endpoints
        groups = self.read("logs", "describe-log-groups", "--log-group-name-prefix", "/aws/sagemaker/")
        assert LOG_GROUP in {group["logGroupName"] for group in groups["logGroups"]}
        read = ("logs", "filter-log-events", "--log-group-name", LOG_GROUP, "--max-items", "5")
        assert eventually(lambda: self.read(*read)["events"])

    def test_metrics_are_read(self, endpoints: tuple[str, str]) -> None:
        invoke(endpoints[0], 1)
        dimension = ("--dimensions", f"Name=EndpointName,Value={endpoints[0]}")
        metrics = ("cloudwatch", "list-metrics", "--namespace", "AWS/SageMaker", *dimension)
        found = eventually(lambda: self.read(*metrics)["Metrics"])
        assert "Invocations" in {metric["MetricName"] for metric in found}


class TestSageMakerSdk:
    @pytest.fixture(autouse=True)
    def sdk(self) -> None:
        pytest.importorskip("sagemaker.core", reason="the extra tritonstack[sagemaker] is not installed")

    def test_endpoint_is_found_and_invoked(self, endpoints: tuple[str, str]) -> None:
        from sagemaker.core.resources import Endpoint

        from tritonstack.client.sagemaker_sdk import TritonDeserializer, TritonSerializer

        endpoint = Endpoint.get(endpoint_name=endpoints[0])
        assert endpoint.endpoint_status == "InService"
        endpoint.serializer, endpoint.deserializer = TritonSerializer(), TritonDeserializer()
        row = np.array([[1.5, 2.5]], np.float32)
        answer = endpoint.invoke(body={"x": row}, content_type=endpoint.serializer.CONTENT_TYPE)
        assert np.array_equal(answer.body["y"], row * 2)

    def test_invoke_sends_the_target_model(self, endpoints: tuple[str, str]) -> None:
        from sagemaker.core.resources import Endpoint

        from tritonstack.client.sagemaker_sdk import TritonDeserializer, TritonSerializer

        endpoint = Endpoint.get(endpoint_name=endpoints[1])
        endpoint.serializer, endpoint.deserializer = TritonSerializer(), TritonDeserializer()
        row = np.array([[1.5, 2.5]], np.float32)
        answer = endpoint.invoke(
            body={"x": row},
            content_type=endpoint.serializer.CONTENT_TYPE,
            target_model=models.CHAIN_TARGET,
        )
        assert np.array_equal(answer.body["y"], row * 6)

    def test_endpoints_are_listed(self, endpoints: tuple[str, str]) -> None:
        from sagemaker.core.resources import Endpoint

        assert {endpoint.endpoint_name for endpoint in Endpoint.get_all()} == set(endpoints)

    def test_an_endpoint_is_awaited_and_deleted(self, archives: str) -> None:
        from sagemaker.core.resources import Endpoint

        deploy("by-sdk", ModelDataUrl=f"{archives}/single.tar.gz")
        endpoint = Endpoint.get(endpoint_name="by-sdk")
        endpoint.wait_for_status("InService", poll=1, timeout=120)
        endpoint.delete()
        endpoint.wait_for_delete(poll=1, timeout=60)
        boto3.client("sagemaker").delete_endpoint_config(EndpointConfigName="by-sdk")
        boto3.client("sagemaker").delete_model(ModelName="by-sdk")


@pytest.fixture(params=["boto3", "light"])
def runtime(exported: dict[str, str], request: pytest.FixtureRequest) -> Any:
    """A transport that finds address and credentials in the exported variables."""
    del exported
    return LightRuntime() if request.param == "light" else boto3.client("sagemaker-runtime")


class TestEndpointClient:
    @pytest.mark.parametrize(
        ("which", "target", "factor"),
        [(0, None, 2), (1, models.DOUBLE_TARGET, 2), (1, models.CHAIN_TARGET, 6)],
    )
    def test_sync_and_async_requests(
        self, endpoints: tuple[str, str], runtime: Any, which: int, target: str | None, factor: int
    ) -> None:
        client = EndpointClient(endpoint_name=endpoints[which], runtime=runtime, target_model=target)
        row = np.array([[1.5, 2.5]], np.float32)
        assert np.array_equal(client.infer({"x": row})["y"], row * factor)

        async def many() -> list[Any]:
            return await asyncio.gather(*(client.ainfer({"x": row + number}) for number in range(8)))

        for number, answer in enumerate(asyncio.run(many())):
            assert np.array_equal(answer["y"], (row + number) * factor)

    def test_a_models_error_has_a_type(self, endpoints: tuple[str, str], runtime: Any) -> None:
        client = EndpointClient(endpoint_name=endpoints[0], runtime=runtime)
        rejected = {"x": np.array([[models.REJECTS]], np.float32)}
        with pytest.raises(ModelFailedError, match="minus one is no input"):
            client.infer(rejected)
        with pytest.raises(ModelFailedError, match="minus one is no input"):
            asyncio.run(client.ainfer(rejected))

    def test_another_key_is_rejected(self, endpoints: tuple[str, str]) -> None:
        """The cloud verifies signatures, so the light transport's are valid."""
        key = boto3.Session().get_credentials().get_frozen_credentials()
        session = boto3.Session(key.access_key, f"{key.secret_key}x", key.token)
        client = EndpointClient(endpoint_name=endpoints[0], runtime=LightRuntime(session=session))
        with pytest.raises(AccessDeniedError):
            client.infer({"x": np.array([[1.5]], np.float32)})
