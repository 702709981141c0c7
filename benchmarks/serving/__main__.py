"""Compare served sentence embeddings with FastAPI, under a closed loop of many connections.

    python -m benchmarks.serving [--rounds 5] [--seconds 15] [--connections 200]

MiniLM is built as fp32 and with `precision: auto`. Each build is served by a real Triton, and called at its
port and through InvokeEndpoint of the local cloud. The peers are benchmarks/peers/embedding.py with PyTorch
and with the same graph files. All run at the same time, get the same requests, and are loaded in turns;
the table has the medians of all rounds. The load comes from wrk, which takes little CPU time.

Before the first run: apt-get install wrk, and
pip install --require-hashes --no-deps --target .tritonstack/peers -r benchmarks/peers/requirements.txt
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import numpy as np
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from rich.console import Console
from rich.table import Table

from benchmarks.cloud import NAME, REGION, deploy, started_cloud
from benchmarks.footprint import tree
from benchmarks.serving.load import Load, Round, Server, bodies
from benchmarks.serving.peers import PEER_PORT, Built, best_peer, built, framework_folder, graph_folder, label
from tritonstack.base.paths import Project, find_project
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation

LEAST_COSINE = 0.97


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=15, help="length of each run")
    parser.add_argument("--connections", type=int, default=200)
    options = parser.parse_args()
    project = find_project(Path(__file__).parent)
    require_tools(project)
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as running:
        folder, load = Path(temporary), Load(Path(temporary), options.seconds, options.connections)
        servers = list(start_all(project, folder, load, running))
        compare_answers(servers, load)
        rounds: dict[str, list[Round]] = {server.name: [] for server in servers}
        for _ in range(options.rounds):
            for server in servers:
                rounds[server.name].append(load.run(server))
    print_table(rounds, options.connections)


def require_tools(project: Project) -> None:
    """Exit with the missing command of the module's help."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing; run: apt-get install wrk")
    if not (project.state_dir / "peers" / "fastapi").is_dir():
        sys.exit(
            "the peers' packages are missing; run: pip install --require-hashes --no-deps "
            "--target .tritonstack/peers -r benchmarks/peers/requirements.txt"
        )


def start_all(project: Project, folder: Path, load: Load, running: ExitStack) -> Iterator[Server]:
    """Start every peer and every build; they end with `running`."""
    fp32, auto = (built(project, folder, precision) for precision in ("fp32", "auto"))
    torch_folder = framework_folder(project, folder / "torch", fp32)
    peers = {"FastAPI, torch": ("torch", torch_folder)}
    for made in (fp32, auto):
        peers[f"FastAPI, {label(made)} ONNX"] = ("onnx", graph_folder(folder / f"peer-{label(made)}", made))
    for number, (name, (kind, files)) in enumerate(peers.items()):
        yield running.enter_context(best_peer(project, name, kind, files, PEER_PORT + number, load))
    for made in (fp32, auto):
        yield running.enter_context(triton_port(project, folder, made))
        yield running.enter_context(invoke_endpoint(folder, made))


@contextmanager
def triton_port(project: Project, folder: Path, made: Built) -> Iterator[Server]:
    """Start a Triton as an endpoint's container does, called without AWS in front of it."""
    with TritonServer.start(
        installation=find_installation(home=project.server_dir),
        model_root=made.repository,
        environment=variables(made),
        state_dir=folder / f"triton-{label(made)}",
    ) as server:
        server.wait_ready(timeout_s=120)
        inside = next(pid for pid in tree(server.pid) if program(pid) == "tritonserver")
        name = f"tritonstack, {label(made)}, container port"
        yield Server(name, server.pid, "http://127.0.0.1:8080/invocations", namespace_of=inside)


def program(pid: int) -> str:
    """Return the name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def variables(made: Built) -> dict[str, str]:
    """Return the environment of the container."""
    return container_variables({}, ContainerOptions(made.manifest.entry_model))


@contextmanager
def invoke_endpoint(folder: Path, made: Built) -> Iterator[Server]:
    """Start a local cloud with one endpoint; requests are signed."""
    with started_cloud(folder / f"cloud-{label(made)}") as started:
        keys = Credentials(started.variables["AWS_ACCESS_KEY_ID"], started.variables["AWS_SECRET_ACCESS_KEY"])
        session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
        deploy(session, started.url, made.archive, variables(made))
        url = f"{started.url}/endpoints/{NAME}/invocations"
        headers = {body: signed(url, body, keys) for body in bodies()}
        yield Server(f"tritonstack, {label(made)}, InvokeEndpoint", started.pid, url, headers=headers)


def signed(url: str, body: str, keys: Credentials) -> dict[str, str]:
    """Return the headers of a request, signed once: a signature is valid for minutes."""
    request = AWSRequest("POST", url, data=body.encode(), headers={"Content-Type": "application/json"})
    SigV4Auth(keys, "sagemaker", REGION).add_auth(request)
    return dict(request.headers.items())


def compare_answers(servers: Sequence[Server], load: Load) -> None:
    """Exit if a server's answer differs from the first one's."""
    reference: np.ndarray | None = None
    for server in servers:
        answer = load.ask(server)
        reference = answer if reference is None else reference
        cosine = float(answer @ reference / np.linalg.norm(answer) / np.linalg.norm(reference))
        if cosine < LEAST_COSINE:
            sys.exit(f"{server.name}: cosine {cosine:.4f} to {servers[0].name}, expected {LEAST_COSINE}")


def print_table(rounds: Mapping[str, Sequence[Round]], connections: int) -> None:
    """Print the medians, with the range of the rates."""
    table = Table(title=f"{connections} connections, medians of {len(next(iter(rounds.values())))} rounds")
    for column in ("server", "requests/s", "range", "p50 ms", "p99 ms", "CPU ms/request"):
        table.add_column(column, justify="left" if column == "server" else "right")
    for name, runs in rounds.items():
        rates = [run.rate for run in runs]
        table.add_row(
            name,
            f"{statistics.median(rates):.0f}",
            f"{min(rates):.0f}-{max(rates):.0f}",
            f"{statistics.median(run.p50_ms for run in runs):.0f}",
            f"{statistics.median(run.p99_ms for run in runs):.0f}",
            f"{statistics.median(run.processor_ms for run in runs):.2f}",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
