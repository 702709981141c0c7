"""The contract asked of endpoints of the local cloud, with the command-line options for any endpoint."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.contract import models
from tests.contract.drivers import DEFAULT_MODEL, PING_MODE, QUICK, Driver, EmbeddedDriver
from tritonstack.base.paths import find_project
from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.process import start_detached, stop
from tritonstack_local.settings import CloudSettings

pytestmark = pytest.mark.soak

HERE = Path(__file__).parent
FILES = ("test_bodies.py", "test_invalid_bodies.py", "test_transport.py")
REGION = "eu-west-1"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:24.09-py3"
ROLE = "arn:aws:iam::111122223333:role/endpoint"


@pytest.fixture
def cloud(driver: Driver, tmp_path: Path) -> Iterator[CloudAddress]:
    if not isinstance(driver, EmbeddedDriver):
        pytest.skip("one given server is enough for one run")
    yield start_detached(
        CloudSettings(
            state_dir=tmp_path / "cloud",
            server_home=find_project(HERE).server_dir,
            account_id="111122223333",
            region=REGION,
        )
    )
    stop(state_dir=tmp_path / "cloud")


@pytest.mark.parametrize("mode", ["single", "multi-model"])
def test_an_endpoint_passes(mode, cloud, tmp_path, monkeypatch):
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    boto3.setup_default_session()  # an earlier test's session remembers the keys of another cloud
    models.lay_out(tmp_path / "laid")
    deploy(mode, tmp_path / "laid/archives")
    options = ("--endpoint", "contract", "--mode", mode, "--release", "24.10")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
    files = [str(HERE / name) for name in FILES]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.splitlines()[-1].split(" passed")[0].split()[-1]) > 40


def deploy(mode: str, archives: Path) -> None:
    """What a person does to ask the contract of an endpoint."""
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    s3.create_bucket(Bucket="archives", CreateBucketConfiguration={"LocationConstraint": REGION})
    for archive in archives.rglob("*.tar.gz"):
        s3.upload_file(str(archive), "archives", str(archive.relative_to(archives)))
    if mode == "multi-model":
        container = {"Mode": "MultiModel", "ModelDataUrl": "s3://archives/"}
        environment = {**QUICK, PING_MODE: "live"}
    else:
        container = {"ModelDataUrl": f"s3://archives/{mode}.tar.gz"}
        environment = {**QUICK, DEFAULT_MODEL: models.DOUBLE}
    sagemaker.create_model(
        ModelName="contract",
        ExecutionRoleArn=ROLE,
        PrimaryContainer={"Image": IMAGE, **container, "Environment": environment},
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="contract",
        ProductionVariants=[
            {
                "VariantName": "AllTraffic",
                "ModelName": "contract",
                "InstanceType": "ml.g5.xlarge",
                "InitialInstanceCount": 1,
            }
        ],
    )
    sagemaker.create_endpoint(EndpointName="contract", EndpointConfigName="contract")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="contract", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
