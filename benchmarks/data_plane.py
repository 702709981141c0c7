"""Measure what InvokeEndpoint of the local AWS adds to the container's port.

    python -m benchmarks.data_plane [--rounds 5] [--seconds 5] [--rate 1000] [--connections 64]

One tiny Python model is served twice: by a bare tritonserver, and by an endpoint of a local cloud. Both get
the same 4,000 different bodies, in turn: at a fixed rate (open loop, sent from Python), and as fast as they
are answered (peak, sent by wrk). Requests to the cloud are signed before the run, each by itself.

CPU time is per request: of the cloud's own process, of Triton and its model, and of the client. All of them
share the machine. Before the first run: apt-get install wrk
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import numpy as np
from botocore.credentials import Credentials
from rich.console import Console
from rich.table import Table

from benchmarks.cloud import (
    CONFIG,
    NAME,
    QUIET,
    REGION,
    bare_triton,
    deploy,
    started_cloud,
    write_repository,
)
from benchmarks.load import send_load
from benchmarks.serving.load import LUA, Server, entered, finished, raw_request
from benchmarks.serving.products import program, signed
from benchmarks.serving.requests import Body, number_bodies
from model_build.store.archive import pack
from tritonstack.runtime.processor_time import processor_seconds, tree

BODIES = 4000
"""Number of different requests."""
CHECKED = 20
"""Requests whose answers are compared."""
WARM_UP_S = 1.0
MOST_ADDED_MS, LEAST_PEAK = 1.0, 4000
BATCHED = CONFIG.replace("max_batch_size: 8", "max_batch_size: 64") + "dynamic_batching { }\n"
"""The model must not limit the rate: batches divide its cost per request."""
VARIABLES = {**QUIET, "SAGEMAKER_TRITON_THREAD_COUNT": str(os.cpu_count())}
"""On 2 cores, Triton's default of 8 HTTP threads takes a third more CPU time per request."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Target:
    """What receives the requests."""

    server: Server
    connect: Callable[[], socket.socket]
    requests: Sequence[bytes]
    has_cloud: bool
    """Whether the server's first process is a local cloud."""


@dataclass(frozen=True)
class Run:
    """What one run measured; CPU times are milliseconds per request."""

    rate: float
    p50_ms: float
    p99_ms: float
    failed: int
    cloud_ms: float
    triton_ms: float
    client_ms: float


def main() -> None:
    """Measure in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=5, help="number of runs, of which the median is reported"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of a run")
    parser.add_argument("--rate", type=float, default=1000.0, help="requests per second of the open loop")
    parser.add_argument("--connections", type=int, default=64, help="number of connections")
    options = parser.parse_args()
    for tool in ("wrk", "nsenter"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing; run: apt-get install wrk util-linux")
    with tempfile.TemporaryDirectory() as temporary, served(Path(temporary)) as targets:
        rows = np.random.default_rng(1).integers(0, 1000, (BODIES, 4)).astype(np.float32)
        sent = [with_requests(target, number_bodies("x", rows)) for target in targets]
        for target in sent:
            check_answers(target, rows)
        loads = {
            f"open loop, {options.rate:g}/s": partial(open_loop, options),
            "peak": partial(peak, options, Path(temporary)),
        }
        runs = {name: measured(sent, load, options) for name, load in loads.items()}
    report(runs, options)


@contextmanager
def served(folder: Path) -> Iterator[list[Target]]:
    """Serve one model at the container's port and by an endpoint."""
    repository = write_repository(folder / "repository")
    (repository / "double/config.pbtxt").write_text(BATCHED)
    archive = folder / "model.tar.gz"
    pack(repository, archive)
    with started_cloud(folder / "cloud") as started, bare_triton(folder, repository, VARIABLES) as triton:
        variables = started.variables
        keys = Credentials(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
        session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
        deploy(session, started.url, archive, VARIABLES)
        inside = next(pid for pid in tree(triton.pid) if program(pid) == "tritonserver")
        url = f"{started.url}/endpoints/{NAME}/invocations"
        port = Server("container port", "", triton.pid, "http://127.0.0.1:8080/invocations", inside)
        endpoint = Server("InvokeEndpoint", "", started.pid, url, sign=partial(signed, url, keys))
        yield [
            Target(port, triton.connect, (), has_cloud=False),
            Target(endpoint, partial(opened, started.url), (), has_cloud=True),
        ]


def with_requests(target: Target, bodies: Sequence[Body]) -> Target:
    """Write and sign the requests to a target; signatures are valid for 15 minutes."""
    requests = [raw_request(target.server, body) for body in bodies]
    return Target(target.server, target.connect, requests, target.has_cloud)


def check_answers(target: Target, rows: np.ndarray) -> None:
    """Exit if an answer is not the double of its request."""
    with target.connect() as connection:
        for number in range(0, BODIES, BODIES // CHECKED):
            connection.sendall(target.requests[number])
            received = b""
            while not received.endswith(b"]}]}"):
                data = connection.recv(1 << 16)
                if not data or b" 200 " not in received[:15] + data[:15]:
                    sys.exit(f"{target.server.name}: {(received + data).decode(errors='replace')}")
                received += data
            answer = json.loads(received.partition(b"\r\n\r\n")[2])
            if answer["outputs"][0]["data"] != (2 * rows[number]).tolist():
                sys.exit(f"{target.server.name}: wrong answer to request {number}: {answer}")


def open_loop(options: argparse.Namespace, target: Target, seconds: float) -> Run:
    """Send requests at a fixed rate."""
    used, client = cpu_seconds(target), resource.getrusage(resource.RUSAGE_SELF)
    load = send_load(
        target.connect,
        target.requests,
        connections=options.connections,
        seconds=seconds,
        rate=options.rate,
    )
    figures = {"p50_ms": load.percentile_ms(50), "p99_ms": load.percentile_ms(99), "rate": load.rate}
    count = len(load.latencies_s) + load.failed
    return run_of(target, figures, count, load.failed, used, (client, resource.RUSAGE_SELF))


def peak(options: argparse.Namespace, folder: Path, target: Target, seconds: float) -> Run:
    """Let wrk send requests as fast as they are answered."""
    script, requests = folder / "load.lua", folder / "requests"
    requests.write_bytes(b"".join(target.requests))
    sizes = ",".join(str(len(request)) for request in target.requests)
    script.write_text(LUA.replace("SIZES", sizes).replace("FILE", str(requests)))
    wrk = ["wrk", "--threads=1", f"--connections={options.connections}", f"--duration={max(1, seconds):.0f}s"]
    command = [*entered(target.server), *wrk, "--timeout=60s", f"--script={script}", target.server.url]
    used, client = cpu_seconds(target), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = finished(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    figures = {"p50_ms": result["p50_ms"], "p99_ms": result["p99_ms"]}
    figures["rate"] = result["requests"] / result["seconds"]
    count, failed = int(result["requests"]), int(result["errors"])
    return run_of(target, figures, count, failed, used, (client, resource.RUSAGE_CHILDREN))


def run_of(
    target: Target,
    figures: Mapping[str, float],
    count: int,
    failed: int,
    used: tuple[float, float],
    client: tuple[resource.struct_rusage, int],
) -> Run:
    """Return the figures of a run, with the CPU time since its start per request."""
    now, client_now = cpu_seconds(target), resource.getrusage(client[1])
    client_s = client_now.ru_utime + client_now.ru_stime - client[0].ru_utime - client[0].ru_stime
    per_request = 1000 / max(1, count)
    return Run(
        **figures,
        failed=failed,
        cloud_ms=(now[0] - used[0]) * per_request,
        triton_ms=(now[1] - used[1]) * per_request,
        client_ms=client_s * per_request,
    )


def measured(
    targets: Sequence[Target], load: Callable[[Target, float], Run], options: argparse.Namespace
) -> dict[str, list[Run]]:
    """Run a load against every target, alternately."""
    runs: dict[str, list[Run]] = {target.server.name: [] for target in targets}
    for target in targets:
        load(target, WARM_UP_S)
    for _ in range(options.rounds):
        for target in targets:
            runs[target.server.name].append(load(target, options.seconds))
    return runs


def report(runs: Mapping[str, Mapping[str, Sequence[Run]]], options: argparse.Namespace) -> None:
    """Print the table, and the goals."""
    title = f"medians of {options.rounds} runs of {options.seconds:g} s, {options.connections} connections"
    columns = (
        "load",
        "target",
        "requests/s",
        "p50 ms",
        "p99 ms",
        "CPU ms: cloud",
        "Triton",
        "client",
        "failed",
    )
    table = Table(*columns, title=title)
    for load, by_target in runs.items():
        for name, results in by_target.items():
            table.add_row(load, name, *row(results))
    console = Console(width=170)
    console.print(table)
    open_runs, peak_runs = runs.values()
    port, endpoint = open_runs.values()
    added = [mine.p50_ms - bare.p50_ms for mine, bare in zip(endpoint, port, strict=True)]
    rates = [run.rate for run in peak_runs["InvokeEndpoint"]]
    console.print(f"added at p50: {spread(added, '.2f')} ms, goal: at most {MOST_ADDED_MS:g}")
    console.print(f"peak: {spread(rates, ',.0f')} requests per second, goal: at least {LEAST_PEAK:,}")


def row(runs: Sequence[Run]) -> list[str]:
    """Return the medians of some runs, with the spread of most figures."""
    return [
        spread([run.rate for run in runs], ",.0f"),
        spread([run.p50_ms for run in runs], ".2f"),
        spread([run.p99_ms for run in runs], ".1f"),
        spread([run.cloud_ms for run in runs], ".3f") if runs[0].cloud_ms else "",
        f"{statistics.median([run.triton_ms for run in runs]):.3f}",
        f"{statistics.median([run.client_ms for run in runs]):.3f}",
        str(sum(run.failed for run in runs)),
    ]


def spread(values: Sequence[float], form: str) -> str:
    """Return the median, the lowest, and the highest value."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def cpu_seconds(target: Target) -> tuple[float, float]:
    """Return the CPU time of the cloud's own process, and that of everything else."""
    pid = target.server.pid
    own = 0.0
    if target.has_cloud:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return own, processor_seconds(pid) - own


def opened(url: str) -> socket.socket:
    """Open a connection to the cloud."""
    address = urlsplit(url)
    connection = socket.create_connection((str(address.hostname), address.port or 80))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


if __name__ == "__main__":
    main()
