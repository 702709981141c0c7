"""Measure the client's CPU time per call: boto3 with JSON, boto3 with binary tensors, the light transport.

    python -m benchmarks.client [--calls 500] [--rounds 7]

Every call sends one text and decodes 384 floats. A local HTTPS server in another process gives all of them
the same answer. The CPU time is that of this process, with all its threads; the rounds are interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import boto3
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.tls import server_context, write_certificate
from tritonstack.client import EndpointClient
from tritonstack.client.codec import JSON_CONTENT_TYPE, Array, content_type_for
from tritonstack.client.light import LightRuntime

TEXT = "A man is eating food."
INPUTS: Mapping[str, Any] = {"TEXT": np.array([[TEXT]], dtype=np.object_)}
BASELINE = "boto3, JSON"
WARM_UP = 50
CONCURRENT = 16
EMBEDDING = np.random.default_rng(20240917).standard_normal((1, 384)).astype(np.float32)


def main() -> None:
    """Measure all transports in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=500, help="calls per transport and round")
    parser.add_argument("--rounds", type=int, default=7, help="number of rounds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        certificate = write_certificate(Path(folder) / "tls.pem")
        with stub(certificate) as url:
            transports = measured_transports(url, certificate)
            results: dict[str, list[float]] = {name: [] for name in transports}
            for _ in range(options.rounds):
                for name, spend in transports.items():
                    results[name].append(spend(options.calls))
    Console().print(table(results, options.calls))


@contextmanager
def stub(certificate: Path) -> Iterator[str]:
    """Yield the URL of a server in another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve_stub, args=(certificate, theirs), daemon=True)
    process.start()
    try:
        yield f"https://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


def serve_stub(certificate: Path, port: Connection) -> None:
    """Serve until killed; send the port once it listens."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.socket = server_context(certificate).wrap_socket(server.socket, server_side=True)
    port.send(server.server_port)
    server.serve_forever()


class Stub(BaseHTTPRequestHandler):
    """Answer a request in JSON with JSON, and any other one in Triton's binary form."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Send the embedding with the headers that SageMaker sends."""
        self.rfile.read(int(self.headers["Content-Length"]))
        data, output = EMBEDDING.tobytes(), {"name": "embedding", "datatype": "FP32", "shape": [1, 384]}
        if self.headers["Content-Type"] == JSON_CONTENT_TYPE:
            body = _header({**output, "data": EMBEDDING.ravel().tolist()})
            content_type = JSON_CONTENT_TYPE
        else:
            header = _header({**output, "parameters": {"binary_data_size": len(data)}})
            body, content_type = header + data, content_type_for(len(header))
        self.send_response(200)
        self.send_header("x-Amzn-Requestid", "5b0f7a52-7b06-4a32-9d35-d0f2f4a6b1c3")
        self.send_header("x-Amzn-Invoked-Production-Variant", "AllTraffic")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - the server's own name
        """Log nothing."""


def _header(output: Mapping[str, object]) -> bytes:
    return json.dumps({"model_name": "minilm", "model_version": "1", "outputs": [output]}).encode()


def measured_transports(url: str, certificate: Path) -> dict[str, Callable[[int], float]]:
    """Return for each transport the function that returns the milliseconds of CPU per call."""
    session = boto3.Session("AKIDEXAMPLE", "not-a-secret", region_name="eu-west-1")
    options: dict[str, Any] = {"endpoint_url": url, "verify": str(certificate)}
    runtime = session.client("sagemaker-runtime", **options)
    light_runtime = LightRuntime(session=session, **options)
    through_boto3 = EndpointClient(endpoint_name="e", runtime=runtime)
    light = EndpointClient(endpoint_name="e", runtime=light_runtime)
    at_once = f"asyncio, {CONCURRENT} at once"
    return {
        BASELINE: partial(spent_in_a_thread, partial(json_call, runtime)),
        "boto3, binary": partial(spent_in_a_thread, partial(call, through_boto3)),
        f"boto3, binary, {at_once}": partial(spent_in_asyncio, through_boto3, None, CONCURRENT),
        "light, binary": partial(spent_in_a_thread, partial(call, light)),
        "light, binary, asyncio": partial(spent_in_asyncio, light, light_runtime, 1),
        f"light, binary, {at_once}": partial(spent_in_asyncio, light, light_runtime, CONCURRENT),
    }


def json_call(runtime: Any) -> Array:
    """Call with boto3 and JSON, as without this project's client."""
    tensor = {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": [TEXT]}
    body = json.dumps({"inputs": [tensor]}).encode()
    reply = runtime.invoke_endpoint(EndpointName="e", Body=body, ContentType=JSON_CONTENT_TYPE)
    output = json.loads(reply["Body"].read())["outputs"][0]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def call(client: EndpointClient) -> Array:
    """Call with this project's client."""
    return client.infer(INPUTS)["embedding"]


def spent_in_a_thread(action: Callable[[], Array], calls: int) -> float:
    """Return the CPU time per call of sequential calls."""
    for _ in range(WARM_UP):
        action()
    begin = time.process_time()
    for _ in range(calls):
        assert np.array_equal(action(), EMBEDDING)  # noqa: S101  every transport decodes the same answer
    return (time.process_time() - begin) / calls * 1000


def spent_in_asyncio(
    client: EndpointClient, light: LightRuntime | None, concurrent: int, calls: int
) -> float:
    """Return the CPU time per call of coroutines that each call in sequence."""

    async def coroutine(count: int) -> None:
        for _ in range(count):
            answer = await client.ainfer(INPUTS)
            assert np.array_equal(answer["embedding"], EMBEDDING)  # noqa: S101

    async def measure() -> float:
        async def together(count: int) -> None:
            await asyncio.gather(*(coroutine(count) for _ in range(concurrent)))

        await together(-(-WARM_UP // concurrent))
        begin, each = time.process_time(), calls // concurrent
        await together(each)
        spent = time.process_time() - begin
        if light is not None:
            await light.aclose()
        return spent / (each * concurrent) * 1000

    return asyncio.run(measure())


def table(results: Mapping[str, list[float]], calls: int) -> Table:
    """Return the medians and their ratios to boto3 with JSON."""
    baseline = statistics.median(results[BASELINE])
    shown = Table(
        "transport", "CPU ms per call", "lowest-highest", "times less", title="one text to 384 floats, HTTPS"
    )
    for name, times in results.items():
        median = statistics.median(times)
        spread = f"{min(times):.3f}-{max(times):.3f}"
        shown.add_row(name, f"{median:.3f}", spread, f"{baseline / median:.1f} ×")
    shown.caption = (
        f"medians of {len(results[BASELINE])} interleaved rounds of {calls} calls; limit: 3 × for light"
    )
    return shown


if __name__ == "__main__":
    main()
