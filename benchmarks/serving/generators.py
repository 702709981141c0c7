"""Compare `tritonstack bench` with wrk on one endpoint, and a replay with the requests that were captured.

    python -m benchmarks.serving.generators [--users 8,64] [--seconds 10] [--rounds 5]

The endpoint is a server in another process with a known service time: it answers some requests at a time,
and the others wait. Both generators send the same body in turns, with the same number of connections, and
the medians of their rounds are compared. wrk has only closed loops. The replay sends what a data capture
holds, and the server reports when each request arrived. Exits with 1 beyond the limits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.serving.load import LUA, finished
from tests.moto_aws import simulated_aws
from tritonstack.client.errors import RequestFacts
from tritonstack.operations.aws import Cloud
from tritonstack.operations.loads.captures import CapturedLoad, read_capture
from tritonstack.operations.loads.requests import LoadSender, PreparedRequest
from tritonstack.operations.loads.runs import summarize
from tritonstack.operations.loads.sending import Sent, closed_loop, open_loop, run_loop

THROUGHPUT_LIMIT, P99_LIMIT, ARRIVALS_LIMIT = 0.05, 0.15, 0.02
AT_ONCE, LEAST_S, MEAN_S = 4, 0.005, 0.005
"""The service time: so long at least, and exponentially distributed beyond."""
NAME, BODY = "bench", b'{"inputs": []}'
PATH = f"/endpoints/{NAME}/invocations"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BEGIN = datetime(2026, 11, 24, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Figures:
    """What a generator measured."""

    rate: float
    p99_ms: float


def main() -> None:
    """Measure both, print a table, and fail beyond the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--users", default="8,64")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    table = Table("load", "bench", "wrk", "difference", "limit")
    exceeded = []
    with endpoint() as (port, arrivals):
        for users in map(int, options.users.split(",")):
            bench, wrk = compared(port, users, options.seconds, options.rounds)
            for what, ours, other, limit in (
                ("per second", bench.rate, wrk.rate, THROUGHPUT_LIMIT),
                ("p99 ms", bench.p99_ms, wrk.p99_ms, P99_LIMIT),
            ):
                difference = ours / other - 1
                figures = (f"{ours:.1f}", f"{other:.1f}", f"{difference:+.1%}", f"{limit:.0%}")
                table.add_row(f"{users} users, {what}", *figures)
                exceeded += [f"{users} users, {what}"] if abs(difference) > limit else []
        share = misplaced(port, arrivals, options.seconds)
        table.add_row("replay: requests in another second", "", "", f"{share:.1%}", f"{ARRIVALS_LIMIT:.0%}")
        exceeded += ["replay"] if share > ARRIVALS_LIMIT else []
    Console().print(table)
    if exceeded:
        sys.exit(f"beyond the limits: {', '.join(exceeded)}")


def compared(port: int, users: int, seconds: int, rounds: int) -> tuple[Figures, Figures]:
    """Return the medians of both generators, which take turns."""
    pairs = [(_bench(port, users, seconds), _wrk(port, users, seconds)) for _ in range(rounds)]
    bench, wrk = zip(*pairs, strict=True)
    return _median(bench), _median(wrk)


def misplaced(port: int, arrivals: Connection, seconds: int) -> float:
    """Replay a capture with bursts; return the share of requests that arrive in another second."""
    counts = np.random.default_rng(1).poisson(np.where(np.arange(seconds) % 5 == 2, 150, 20))
    captured = _captured(counts)
    trace = captured.trace
    _drain(arrivals)
    sender = _sender(port, captured.requests)

    async def replay() -> Sent:
        try:
            return await open_loop(sender.send_in_order, trace.offsets)
        finally:
            await sender.close()

    began = time.perf_counter()
    sent = run_loop(replay())
    received = np.array(_drain(arrivals))
    if any(sent.errors) or len(received) != counts.sum():
        sys.exit(f"the replay failed: {len(received)} of {counts.sum()} requests arrived")
    received += trace.offsets[0] - received[0]
    print(f"replayed {len(received)} requests in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    expected = np.bincount(trace.offsets.astype(int), minlength=seconds)
    actual = np.bincount(received.astype(int), minlength=len(expected))
    missing: int = np.abs(actual[: len(expected)] - expected).sum() + actual[len(expected) :].sum()
    return float(missing / 2 / counts.sum())


def _captured(counts: NDArray[np.int64]) -> CapturedLoad:
    """Write a data capture with so many requests per second to S3 as SageMaker does, and read it."""
    lines = []
    for second, count in enumerate(counts):
        when = f"{BEGIN + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}"
        data = {"observedContentType": "application/json", "mode": "INPUT", "data": BODY.decode()}
        captured = {"endpointInput": {**data, "encoding": "JSON"}}
        line = json.dumps({"captureData": captured, "eventMetadata": {"inferenceTime": when}})
        lines += [line] * int(count)
    with simulated_aws():
        s3 = boto3.client(
            "s3",
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",  # noqa: S106
        )
        s3.create_bucket(Bucket="data")
        key = f"capture/{NAME}/main/{BEGIN:%Y/%m/%d/%H}/00.jsonl"
        s3.put_object(Bucket="data", Key=key, Body="\n".join(lines).encode())
        end = BEGIN + timedelta(hours=1)
        return read_capture(s3, bucket="data", prefix="capture/", begin=BEGIN, end=end, seed=1)


def _bench(port: int, users: int, seconds: int) -> Figures:
    sender = _sender(port, [PreparedRequest(BODY, "application/json")])

    async def load() -> Sent:
        try:
            return await closed_loop(sender.send, users=users, seconds=seconds)
        finally:
            await sender.close()

    main: Coroutine[Any, Any, Sent] = load()
    run = summarize(run_loop(main), load="closed loop", seconds=seconds, is_trace=False)
    if run.errors:
        sys.exit(f"bench failed: {run.errors}")
    return Figures(run.answered_per_s, run.percentiles_ms()[99.0])


def _wrk(port: int, users: int, seconds: int) -> Figures:
    head = [f"POST {PATH} HTTP/1.1", "Host: localhost", f"Content-Length: {len(BODY)}", "", ""]
    request = "\r\n".join(head).encode() + BODY
    with TemporaryDirectory() as folder:
        file, script = Path(folder) / "requests", Path(folder) / "load.lua"
        file.write_bytes(request)
        script.write_text(LUA.replace("SIZES", str(len(request))).replace("FILE", str(file)))
        load = ["wrk", "--threads=1", f"--connections={users}", f"--duration={seconds}s"]
        command = [*load, f"--script={script}", f"http://127.0.0.1:{port}{PATH}"]
        result = finished(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    if result["errors"]:
        sys.exit(f"wrk failed: {result['errors']:.0f} errors")
    return Figures(result["requests"] / result["seconds"], result["p99_ms"])


def _sender(port: int, requests: Sequence[PreparedRequest]) -> LoadSender:
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    cloud = Cloud("000000000000", "us-east-1", {**keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
    return LoadSender(cloud, RequestFacts(NAME), requests, timeout_s=60)


def _median(rounds: Sequence[Figures]) -> Figures:
    return Figures(
        statistics.median(figures.rate for figures in rounds),
        statistics.median(figures.p99_ms for figures in rounds),
    )


@contextmanager
def endpoint() -> Iterator[tuple[int, Connection]]:
    """Run the server in another process; yield its port, and a pipe that answers with arrival times."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv(), ours
    finally:
        process.terminate()
        process.join()


def _drain(arrivals: Connection) -> list[float]:
    arrivals.send(None)
    times: list[float] = arrivals.recv()
    return times


def _serve(pipe: Connection) -> None:
    asyncio.run(_Endpoint(pipe).serve())


class _Endpoint:
    """Answers requests after their service time, some at a time."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._arrivals = pipe, list[float]()
        self._slots, self._random = asyncio.Semaphore(AT_ONCE), random.Random(1)  # noqa: S311 - no secret

    async def serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=1024)
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._report)
        self._pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    def _report(self) -> None:
        self._pipe.recv()
        self._pipe.send(self._arrivals)
        self._arrivals = []

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r")[0])
                await reader.readexactly(length)
                self._arrivals.append(time.perf_counter())
                async with self._slots:
                    await asyncio.sleep(LEAST_S + self._random.expovariate(1 / MEAN_S))
                writer.write(REPLY)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


if __name__ == "__main__":
    main()
