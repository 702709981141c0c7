"""Measure what a limit of Triton's queue costs.

    python -m benchmarks.queue_limits [--rounds 5] [--seconds 4]

A Python model that sleeps 20 ms per batch is served with and without `max_queue_size`, by one and two
instances. wrk asks over 20, 64, and 200 connections, and each waits for its answer before it asks again. All
servers take turns in each round. The limit is never reached. Before the first run: apt-get install wrk
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.serving.load import Load, Reference, Server
from benchmarks.serving.products import READY_WITHIN_S, program
from benchmarks.serving.requests import number_bodies
from tritonstack.base.paths import Project, find_project
from tritonstack.reference.container_variables import ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.runtime.processor_time import tree

MODEL = "sleeper"
CODE = """\
import time
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        answer = numpy.arange(384, dtype=numpy.float32)[None]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", answer)]) for _ in requests]
"""
CONFIG = """\
name: "{name}"
backend: "python"
max_batch_size: 32
input {{ name: "x" data_type: TYPE_FP32 dims: 1 }}
output {{ name: "y" data_type: TYPE_FP32 dims: 384 }}
instance_group {{ count: {instances} kind: KIND_CPU }}
dynamic_batching {{ {limit} }}
"""
LIMIT = "default_queue_policy { max_queue_size: 5000 }"
CONNECTIONS = (20, 64, 200)


def main() -> None:
    """Measure all servers in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    project = find_project(Path(__file__))
    answer = np.arange(384, dtype=np.float32)
    load = Load(number_bodies("x", np.ones((8, 1), np.float32)), Reference(np.tile(answer, (8, 1)), -1.0))
    table = Table("instances", "queue", *(f"{count} connections" for count in CONNECTIONS))
    table.title = f"requests per second, median of {options.rounds} (lowest to highest)"
    for instances in (1, 2):
        with ExitStack() as running, tempfile.TemporaryDirectory() as folder:
            servers = {
                name: running.enter_context(
                    _served(project, Path(folder) / name.split()[0], instances, limit)
                )
                for name, limit in (("no limit", ""), ("5,000 requests", LIMIT))
            }
            rates: dict[tuple[str, int], list[float]] = {}
            for _ in range(options.rounds):
                for count in CONNECTIONS:
                    for name, server in servers.items():
                        result = load.run(server, connections=count, seconds=options.seconds)
                        if result.errors:
                            raise SystemExit(f"{name}: {result.errors} errors")
                        rates.setdefault((name, count), []).append(result.rate)
            for name in servers:
                table.add_row(
                    str(instances), name, *(_described(rates[name, count]) for count in CONNECTIONS)
                )
    Console().print(table)


@contextmanager
def _served(project: Project, folder: Path, instances: int, limit: str) -> Iterator[Server]:
    version = folder / "models" / MODEL / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE)
    config = CONFIG.format(name=MODEL, instances=instances, limit=limit)
    (version.parent / "config.pbtxt").write_text(config)
    with TritonServer.start(
        installation=find_installation(home=project.server_dir),
        model_root=folder / "models",
        environment=container_variables({}, ContainerOptions(MODEL)),
        state_dir=folder / "state",
    ) as server:
        server.wait_ready(timeout_s=READY_WITHIN_S)
        inside = next(pid for pid in tree(server.pid) if program(pid) == "tritonserver")
        url = "http://127.0.0.1:8080/invocations"
        yield Server(limit or "no limit", "Triton's Python backend", server.pid, url, namespace_of=inside)


def _described(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f}–{max(rates):,.0f})"


if __name__ == "__main__":
    main()
