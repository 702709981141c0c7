"""Measure what InvokeEndpoint of the local AWS adds to the container's port.

    python -m benchmarks.data_plane [--rounds 5] [--seconds 5] [--rate 1000] [--connections 64]

One tiny Python model is served twice: by a bare tritonserver, and by an endpoint of a local cloud. The same
generator sends both the same bodies, in turn: at a fixed rate (open loop), and as fast as they are answered
(peak). Requests to the cloud are signed before the run, each with its own signature. CPU time is that of the
cloud's own process per request, without the server that it started.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from rich.console import Console
from rich.table import Table

from benchmarks.cloud import (
    BODY,
    CONFIG,
    JSON,
    NAME,
    QUIET,
    REGION,
    bare_triton,
    deploy,
    started_cloud,
    write_repository,
)
from benchmarks.load import Load, send_load
from model_build.store.archive import pack

SIGNED = 500
"""Number of different signed requests."""
WARM_UP_S = 1.0
BATCHED = CONFIG.replace("max_batch_size: 8", "max_batch_size: 64") + "dynamic_batching { }\n"
"""The model must not limit the rate: batches divide its cost per request."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Target:
    """What receives the requests."""

    name: str
    connect: Callable[[], socket.socket]
    requests: Sequence[bytes]
    pid: int | None = None
    """The process whose CPU time is measured."""


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
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        repository = write_repository(folder / "repository")
        (repository / "double/config.pbtxt").write_text(BATCHED)
        with started_cloud(folder / "cloud") as started, bare_triton(folder, repository) as triton:
            variables = started.variables
            keys = Credentials(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
            session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
            archive = folder / "model.tar.gz"
            pack(repository, archive)
            deploy(session, started.url, archive, QUIET)
            targets = [
                Target("container port", triton.connect, [plain_request()]),
                Target(
                    "InvokeEndpoint",
                    partial(opened, started.url),
                    signed_requests(started.url, keys),
                    started.pid,
                ),
            ]
            Console(width=120).print(measured(targets, options))


def measured(targets: Sequence[Target], options: argparse.Namespace) -> Table:
    """Run every target in every way, alternately."""
    title = f"medians of {options.rounds} runs of {options.seconds:g} s, {options.connections} connections"
    table = Table("load", "target", "requests/s", "p50 ms", "p99 ms", "CPU ms/request", "failed", title=title)
    for name, rate in ((f"open loop, {options.rate:g}/s", options.rate), ("peak", None)):
        runs: dict[str, list[tuple[Load, float]]] = {target.name: [] for target in targets}
        for target in targets:
            run(target, options, rate, seconds=WARM_UP_S)
        for _ in range(options.rounds):
            for target in targets:
                runs[target.name].append(run(target, options, rate, seconds=options.seconds))
        for target in targets:
            table.add_row(name, target.name, *row(runs[target.name], has_cpu=target.pid is not None))
    return table


def run(
    target: Target, options: argparse.Namespace, rate: float | None, *, seconds: float
) -> tuple[Load, float]:
    """Return the result of one run, and the CPU seconds of the target's process."""
    before = cpu_s(target.pid)
    load = send_load(
        target.connect, target.requests, connections=options.connections, seconds=seconds, rate=rate
    )
    return load, cpu_s(target.pid) - before


def row(runs: Sequence[tuple[Load, float]], *, has_cpu: bool) -> list[str]:
    """Return the medians of some runs, with the spread of the first figures."""
    rates = [load.rate for load, _ in runs]
    medians = [load.percentile_ms(50) for load, _ in runs]
    tails = [load.percentile_ms(99) for load, _ in runs]
    processor = [1000 * used / len(load.latencies_s) for load, used in runs]
    return [
        f"{statistics.median(rates):,.0f} ({min(rates):,.0f}-{max(rates):,.0f})",
        f"{statistics.median(medians):.2f} ({min(medians):.2f}-{max(medians):.2f})",
        f"{statistics.median(tails):.2f}",
        f"{statistics.median(processor):.3f}" if has_cpu else "",
        str(sum(load.failed for load, _ in runs)),
    ]


def cpu_s(pid: int | None) -> float:
    """Return the CPU time of one process."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def plain_request() -> bytes:
    """Return a request to the container."""
    return written("/invocations", {"Host": "localhost", "Content-Type": JSON})


def signed_requests(url: str, keys: Credentials) -> list[bytes]:
    """Return requests to the endpoint; each has an inference ID, so that each signature differs."""
    path = f"/endpoints/{NAME}/invocations"
    requests = []
    for number in range(SIGNED):
        headers = {"Content-Type": JSON, "X-Amzn-SageMaker-Inference-Id": str(number)}
        request = AWSRequest("POST", url + path, data=BODY, headers=headers)
        SigV4Auth(keys, "sagemaker", REGION).add_auth(request)
        requests.append(written(path, {"Host": urlsplit(url).netloc, **dict(request.headers.items())}))
    return requests


def written(path: str, headers: dict[str, str]) -> bytes:
    """Write a request with the common body."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{lines}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY


def opened(url: str) -> socket.socket:
    """Open a connection to the cloud."""
    address = urlsplit(url)
    connection = socket.create_connection((str(address.hostname), address.port or 80))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


if __name__ == "__main__":
    main()
