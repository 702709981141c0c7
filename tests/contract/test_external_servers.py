"""The command-line options that run the contract against servers started elsewhere.

The server at an address is an embedded one behind a proxy; the endpoint is one of the local cloud.
"""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import boto3
import pytest

from tests.contract import models
from tests.contract.drivers.local import QUICK, EmbeddedDriver
from tests.contract.drivers.servers import DEFAULT_MODEL, MULTI_MODEL, PING_MODE, Driver, Server
from tritonstack.base.paths import find_project
from tritonstack_local.cloud_folder import CloudAddress
from tritonstack_local.process import start_detached, stop
from tritonstack_local.settings import CloudSettings

pytestmark = pytest.mark.soak

HERE = Path(__file__).parent
ROOT = find_project(HERE).root
REGION = "eu-west-1"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:24.09-py3"
ROLE = "arn:aws:iam::111122223333:role/endpoint"


@pytest.fixture(autouse=True)
def embedded_only(driver: Driver) -> None:
    if not isinstance(driver, EmbeddedDriver):
        pytest.skip("one given server is enough for one run")


def passed(*options: str, files: tuple[str, ...]) -> int:
    """How many cases of these files hold against a given server; none may fail."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options]
    done = subprocess.run(
        [*command, *(str(HERE / name) for name in files)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return int(done.stdout.splitlines()[-1].split(" passed")[0].split()[-1])


def test_models_are_written_for_other_servers(tmp_path):
    subprocess.run([sys.executable, "-m", "tests.contract.models", str(tmp_path)], cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {"archives", "ensemble", "single"}
    archives = {str(path.relative_to(tmp_path / "archives")) for path in tmp_path.rglob("*.tar.gz")}
    assert {models.DOUBLE_TARGET, models.CHAIN_TARGET, "single.tar.gz", "ensemble.tar.gz"} <= archives


@contextmanager
def relayed(server: Server) -> Iterator[str]:
    """An address on loopback that leads to a server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):  # the listener is closed at the end
                while True:
                    outer = listener.accept()[0]
                    inner = server.connect()
                    for source, target in ((outer, inner), (inner, outer)):
                        threading.Thread(target=forward, args=(source, target), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def forward(source: socket.socket, target: socket.socket) -> None:
    """Hand bytes on until one side ends, and then end both: whoever waits for the other wakes up."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for side in (source, target):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


def test_single_model_server_at_a_url(driver):
    server = driver.start(models.single, {DEFAULT_MODEL: models.DOUBLE})
    with relayed(server) as url:
        files = ("test_bodies.py", "test_invalid_bodies.py", "test_paths.py", "test_transport.py")
        assert passed("--server", url, "--release", "24.10", files=files) > 60
    server.stop()


def test_multi_model_server_at_a_url(driver):
    server = driver.start(lambda _: None, {MULTI_MODEL: "true", PING_MODE: "live"})
    assert server.models is not None
    with relayed(server) as url:
        options = ("--server", url, "--model-root", str(server.models), "--release", "24.10")
        assert passed(*options, files=("test_bodies.py", "test_datatypes.py")) > 60
    server.stop()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[CloudAddress]:
    home = find_project(HERE).server_dir
    yield start_detached(
        CloudSettings(
            state_dir=tmp_path / "cloud", server_home=home, account_id="111122223333", region=REGION
        )
    )
    stop(state_dir=tmp_path / "cloud")


@pytest.mark.parametrize("mode", ["single", "multi-model"])
def test_an_endpoint(mode, cloud, tmp_path, monkeypatch):
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    boto3.setup_default_session()  # an earlier test's session remembers the keys of another cloud
    models.lay_out(tmp_path / "laid")
    deploy(mode, tmp_path / "laid/archives")
    options = ("--endpoint", "contract", "--mode", mode, "--release", "24.10")
    assert passed(*options, files=("test_bodies.py", "test_invalid_bodies.py", "test_transport.py")) > 40


def deploy(mode: str, archives: Path) -> None:
    """What a person does to ask the contract of an endpoint."""
    s3, sagemaker = boto3.client("s3"), boto3.client("sagemaker")
    s3.create_bucket(Bucket="archives", CreateBucketConfiguration={"LocationConstraint": REGION})
    for archive in archives.rglob("*.tar.gz"):
        s3.upload_file(str(archive), "archives", str(archive.relative_to(archives)))
    model = {"single": models.DOUBLE, "ensemble": models.CHAIN}.get(mode)
    container = {"Image": IMAGE}
    if model is None:
        container |= {"Mode": "MultiModel", "ModelDataUrl": "s3://archives/"}
        environment = {**QUICK, PING_MODE: "live"}
    else:
        container |= {"ModelDataUrl": f"s3://archives/{mode}.tar.gz"}
        environment = {**QUICK, DEFAULT_MODEL: model}
    sagemaker.create_model(
        ModelName="contract",
        ExecutionRoleArn=ROLE,
        PrimaryContainer={**container, "Environment": environment},
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
