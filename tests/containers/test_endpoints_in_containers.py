"""`tritonstack up --containers`: endpoints deployed through boto3 run in the image they name."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from packages.local_cloud.tests.sagemaker.fakes import tarball
from tests.containers.probe import FILES, question, told
from tests.e2e.conftest import Site, furnished_site

pytestmark = pytest.mark.soak

HELD = "000000000000.dkr.ecr.us-east-1.amazonaws.com/tests/serving:held"
ROLE = "arn:aws:iam::000000000000:role/endpoint"
QUIET = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}


@pytest.fixture(scope="module")
def cloud(
    engine: docker.DockerClient, serving_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    site = empty_site(tmp_path_factory.mktemp("site"), shared=("server",))
    engine.images.get(serving_image).tag(HELD)  # SageMaker takes names of ECR's alone
    site.tritonstack("up", "--detach", "--containers", "--expose")
    yield site
    site.tritonstack("down")
    engine.images.remove(HELD)


def empty_site(root: Path, *, shared: tuple[str, ...]) -> Site:
    (root / "environments").mkdir()
    return furnished_site(root, shared=shared)


def client(site: Site, service: str) -> Any:
    import boto3

    variables = site.address.environment()
    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def deploy(site: Site, name: str, **container: Any) -> None:
    sagemaker, s3 = client(site, "sagemaker"), client(site, "s3")
    s3.create_bucket(Bucket="models")
    s3.put_object(Bucket="models", Key="shelf/probe.tar.gz", Body=tarball(FILES))
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Environment": QUIET, **container}
    )
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InstanceType": "ml.c7i.xlarge",
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )


def single(site: Site, name: str, image: str) -> None:
    deploy(site, name, Image=image, ModelDataUrl="s3://models/shelf/probe.tar.gz")


def ask(site: Site, name: str, kind: str, subject: str = "", **fields: str) -> Any:
    answer = client(site, "sagemaker-runtime").invoke_endpoint(
        EndpointName=name, ContentType="application/json", Body=question(kind, subject), **fields
    )
    return told(answer["Body"].read())


def ours(engine: docker.DockerClient, site: Site) -> list[Any]:
    label = f"tritonstack.cloud={site.project.cloud_dir().resolve()}"
    return list(engine.containers.list(all=True, filters={"label": label}, ignore_removed=True))


def first_words(site: Site, name: str) -> str:
    logs, group = client(site, "logs"), f"/aws/sagemaker/Endpoints/{name}"
    (stream,) = logs.describe_log_streams(logGroupName=group)["logStreams"]
    events = logs.get_log_events(
        logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True
    )["events"]
    return str(events[0]["message"])


def eventually(met: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_single_model_endpoint_answers_from_its_image(cloud, engine):
    single(cloud, "single", HELD)
    assert ask(cloud, "single", "version", "tokenizers")  # the image has it, the embedded server has not
    assert len(ours(engine, cloud)) == 1
    assert f"image {HELD} " in first_words(cloud, "single")
    client(cloud, "sagemaker").delete_endpoint(EndpointName="single")
    eventually(lambda: not ours(engine, cloud))


def test_multi_model_endpoint_answers_from_its_image(cloud, engine):
    deploy(cloud, "many", Image=HELD, Mode="MultiModel", ModelDataUrl="s3://models/shelf/")
    assert ask(cloud, "many", "version", "pillow", TargetModel="probe.tar.gz")
    assert len(ours(engine, cloud)) == 1
    client(cloud, "sagemaker").delete_endpoint(EndpointName="many")
    eventually(lambda: not ours(engine, cloud))


def test_missing_image_is_emulated(cloud, engine):
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.04-py3"
    single(cloud, "played", image)
    assert ask(cloud, "played", "interfaces") == ["lo"]
    assert ours(engine, cloud) == []
    assert "embedded Triton" in first_words(cloud, "played")
    client(cloud, "sagemaker").delete_endpoint(EndpointName="played")


def test_a_container_that_dies_is_started_again(cloud, engine):
    single(cloud, "mortal", HELD)
    (first,) = ours(engine, cloud)
    first.kill()
    runtime = client(cloud, "sagemaker-runtime")

    def answers() -> bool:
        try:
            return ask(cloud, "mortal", "user") == 0
        except runtime.exceptions.ClientError:
            return False

    eventually(answers, within_s=60)
    eventually(lambda: first.name not in [container.name for container in ours(engine, cloud)])
    client(cloud, "sagemaker").delete_endpoint(EndpointName="mortal")
    eventually(lambda: not ours(engine, cloud))


def test_killed_cloud_leaves_no_container(cloud, engine):
    single(cloud, "orphan", HELD)
    assert len(ours(engine, cloud)) == 1
    os.kill(cloud.address.pid, signal.SIGKILL)
    eventually(lambda: not ours(engine, cloud))
    label = f"tritonstack.cloud={cloud.project.cloud_dir().resolve()}"
    eventually(lambda: not engine.networks.list(filters={"label": label}))


def test_missing_engine_is_reported_before_any_start(tmp_path):
    site = empty_site(tmp_path, shared=())
    site.variables["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    output = site.tritonstack("up", "--detach", "--containers", exit_code=1)
    assert "no Docker engine" in output
    assert not site.project.cloud_dir().exists()
