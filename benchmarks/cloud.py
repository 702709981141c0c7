"""Measure the local cloud: start-up, idle cost, and the overhead of an invocation.

    python -m benchmarks.cloud [--rounds 5] [--requests 500]

The baseline is moto's own server, started alternately and measured in the same way. Invocations are timed at
the bare tritonserver and through boto3, alternately.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import WARM_UP, stopwatch
from model_build.store.archive import pack
from tritonstack.base.paths import find_project
from tritonstack.triton import TritonServer, find_installation
from tritonstack.triton.processor_time import processor_seconds, tree
from tritonstack_local import process
from tritonstack_local.settings import CloudSettings

LIMIT_S = 3.0
IDLE_S = 5.0
ACCOUNT, REGION, NAME = "000000000000", "us-east-1", "bench"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:24.09-py3"
QUIET = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}
JSON = "application/json"
BODY = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
).encode()
CODE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 2)]) for x in tensors]
"""
CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ -1 ] }
"""
Row = tuple[str, str]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of starts, of which the median is reported"
    )
    parser.add_argument("--requests", type=int, default=500, help="number of invocations of each kind")
    options = parser.parse_args()
    table = Table("what", "measured", title="the local cloud on this machine")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for row in (*starting(folder, options.rounds), *serving(folder, options.requests)):
            table.add_row(*row)
    Console().print(table)
    Console().print(f"limit: ready within {LIMIT_S:g} s, without endpoints")


@dataclass(frozen=True)
class Started:
    """A running server, and the time until its first answer."""

    pid: int
    seconds: float
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that direct AWS tools to it."""


def starting(folder: Path, rounds: int) -> Iterator[Row]:
    """Start the cloud and its baseline alternately, after a warm-up of each."""
    kinds = {"the cloud": started_cloud, "baseline, moto_server": started_moto}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    idle: list[Row] = []
    for number in range(rounds):
        for kind, start in kinds.items():
            with start(folder / f"{number}-{kind}") as started:
                times[kind].append(started.seconds)
                if number == rounds - 1:
                    idle.append((f"{kind}: memory, idle", memory(started.pid)))
                    idle.append((f"{kind}: CPU, idle", idle_processor(started.pid)))
    for kind, elapsed in times.items():
        seconds = f"{statistics.median(elapsed):.2f} s, best {min(elapsed):.2f}, worst {max(elapsed):.2f}"
        yield f"{kind}: start to ready", seconds
    yield from sorted(idle)


@contextmanager
def started_cloud(folder: Path) -> Iterator[Started]:
    """Start a cloud without endpoints, as `tritonstack up --detach` does."""
    settings = CloudSettings(
        state_dir=folder,
        server_home=find_project(Path(__file__).parent).server_dir,
        account_id=ACCOUNT,
        region=REGION,
    )
    with stopwatch() as elapsed:
        address = process.start_detached(settings)
    try:
        yield Started(address.pid, elapsed[0], address.endpoint_url, address.environment())
    finally:
        process.stop(state_dir=folder)


@contextmanager
def started_moto(folder: Path) -> Iterator[Started]:
    """Start moto's own server, with all of its services."""
    del folder
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]
    with stopwatch() as elapsed:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not answers(port):
            time.sleep(0.02)
    try:
        yield Started(child.pid, elapsed[0], f"http://127.0.0.1:{port}")
    finally:
        child.terminate()
        child.wait()


def answers(port: int) -> bool:
    """Return whether a server answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    finally:
        connection.close()
    return True


def serving(folder: Path, requests: int) -> Iterator[Row]:
    """Measure the memory of one endpoint, and the cloud's overhead per request."""
    repository = write_repository(folder / "repository")
    with started_cloud(folder / "serving") as started, bare_triton(folder, repository) as triton:
        variables = started.variables
        session = boto3.Session(
            variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"], region_name=REGION
        )
        archive = folder / "model.tar.gz"
        pack(repository, archive)
        deploy(session, started.url, archive)
        yield "the cloud: memory, one endpoint in service", memory(started.pid)
        yield "the cloud: CPU, one endpoint in service", idle_processor(started.pid)
        requesters = {
            "bare tritonserver": lambda: triton.request("POST", "/invocations", body=BODY).status,
            "the cloud, boto3": asking_with_boto3(session, started.url),
        }
        times = taking_turns(requesters, requests)
    baseline = statistics.median(times["bare tritonserver"])
    for name, elapsed in times.items():
        median, slow = statistics.median(elapsed), np.percentile(elapsed, 99)
        more = "" if median == baseline else f", {median - baseline:+.1f} ms"
        yield f"an invocation: {name}", f"p50 {median:.1f} ms, p99 {slow:.1f} ms{more}"


def memory(pid: int) -> str:
    """Return the resident memory of a process and its descendants; shared pages count once (PSS)."""
    rollups = (Path(f"/proc/{process}/smaps_rollup").read_text() for process in tree(pid))
    kib = sum(
        int(line.split()[1]) for text in rollups for line in text.splitlines() if line.startswith("Pss:")
    )
    return f"{kib / 1024:.0f} MiB"


def idle_processor(pid: int) -> str:
    """Return the share of one core that an idle process tree uses."""
    before = processor_seconds(pid)
    time.sleep(IDLE_S)
    return f"{(processor_seconds(pid) - before) / IDLE_S * 100:.1f} % of a core"


def taking_turns(requesters: dict[str, Callable[[], int]], requests: int) -> dict[str, list[float]]:
    """Return the milliseconds of each kind of request, interleaved."""
    times: dict[str, list[float]] = {name: [] for name in requesters}
    for number in range(WARM_UP + requests):
        for name, ask in requesters.items():
            with stopwatch() as elapsed:
                status = ask()
            if status != 200:
                raise SystemExit(f"{name} answered {status}")
            if number >= WARM_UP:
                times[name].append(elapsed[0] * 1000)
    return times


def asking_with_boto3(session: boto3.Session, url: str) -> Callable[[], int]:
    """Call InvokeEndpoint through boto3."""
    runtime = session.client("sagemaker-runtime", endpoint_url=url)

    def ask() -> int:
        answer = runtime.invoke_endpoint(EndpointName=NAME, Body=BODY, ContentType=JSON)
        answer["Body"].read()
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])

    return ask


@contextmanager
def bare_triton(folder: Path, repository: Path) -> Iterator[TritonServer]:
    """Start the same server with the same model, without a cloud in front of it."""
    server_dir = find_project(Path(__file__).parent).server_dir
    with TritonServer.start(
        installation=find_installation(home=server_dir),
        model_root=repository,
        environment=QUIET,
        state_dir=folder / "bare",
    ) as server:
        server.wait_ready(timeout_s=60)
        yield server


def deploy(session: boto3.Session, url: str, archive: Path) -> None:
    """Create an endpoint and wait until it is in service. Its instance type has two vCPUs."""
    s3, sagemaker = session.client("s3", endpoint_url=url), session.client("sagemaker", endpoint_url=url)
    s3.create_bucket(Bucket=NAME)
    s3.upload_file(str(archive), NAME, archive.name)
    container = {"Image": IMAGE, "ModelDataUrl": f"s3://{NAME}/{archive.name}", "Environment": QUIET}
    role = f"arn:aws:iam::{ACCOUNT}:role/{NAME}"
    sagemaker.create_model(ModelName=NAME, ExecutionRoleArn=role, PrimaryContainer=container)
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": NAME,
        "InstanceType": "ml.c7i.large",
        "InitialInstanceCount": 1,
        "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},  # as the CDK's constructs do
    }
    sagemaker.create_endpoint_config(EndpointConfigName=NAME, ProductionVariants=[variant])
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    waiter = sagemaker.get_waiter("endpoint_in_service")
    waiter.wait(EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 300})


def write_repository(repository: Path) -> Path:
    """Write a model of a few lines."""
    (repository / "double/1").mkdir(parents=True)
    (repository / "double/1/model.py").write_text(CODE)
    (repository / "double/config.pbtxt").write_text(CONFIG)
    return repository


if __name__ == "__main__":
    main()
