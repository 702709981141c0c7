"""Serves the packed archive with a real Triton, as an endpoint will, and compares its answers.

The server gets the very variables that an endpoint's containers get.

In single-model hosting every case is asked alone, all together, and all at the same time in requests of
their own; in multi-model hosting the archive is loaded and asked through the API that SageMaker uses there.
A model that wants a response cache has one there, and is asked twice; in single-model hosting it has none,
so that what is measured is the model.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.accepting import Accept, Precision
from catalog.manifests import LatencyReport, ParityReport, ServedBy
from catalog.variables import ADDITIONAL_ARGS, container_variables
from endpoint_client import decode_reply, encode_request
from model_build.archive import PackedArchive, unpack
from model_build.cases import Case, join_cases, same_shapes
from model_build.errors import ServingError
from model_build.parity import Comparison, compare, judge
from model_build.repository.facts import read_facts
from triton_runtime import TritonInstallation, TritonServer

Array = NDArray[Any]
READY_WITHIN_S = 120.0
REQUEST_WITHIN_S = 120.0
MEASURED_REQUESTS = {"one": 50, "full": 8}
AT_ONCE = 8
HOSTED_AS = "tritonstack-check"
CACHE = {ADDITIONAL_ARGS: "--cache-config=local,size=16777216"}
SHARED_MEMORY_STEP = 1 << 20
SHARED_MEMORY_START = 16 << 20
"""What `serve` gives each process of a Python model, and the step in which that grows."""


@dataclass(frozen=True)
class ServedCheck:
    """The proof that an archive serves."""

    parity: ParityReport
    latency: tuple[LatencyReport, ...]
    served_by: ServedBy
    shared_memory_bytes: int = 0
    """What its Python models need for the largest request that was asked."""


@dataclass
class _Entrance:
    """Where requests for the model go."""

    server: TritonServer
    path: str
    headers: Mapping[str, str]
    largest: int = field(default=0, init=False)
    """The most bytes that a request and its answer had together."""

    def ask(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs for one request."""
        request = encode_request(inputs)
        reply = self.server.request(
            "POST",
            self.path,
            body=request.body,
            headers={"Content-Type": request.content_type, **self.headers},
            timeout_s=REQUEST_WITHIN_S,
        )
        if reply.status != 200:
            raise ServingError(
                f"the served artifact answers {reply.status}: {reply.body.decode(errors='replace')[:500]}\n"
                f"{self.server.log_tail()}"
            )
        self.largest = max(self.largest, len(request.body) + len(reply.body))
        return decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs

    def compare(self, label: str, case: Case) -> list[Comparison]:
        """Ask for one case and compare every output."""
        outputs = self.ask(case.inputs)
        if missing := sorted(case.expected.keys() - outputs.keys()):
            raise ServingError(
                f"the served artifact answers {', '.join(sorted(outputs))}, and not {', '.join(missing)}\n"
                f"{self.server.log_tail()}"
            )
        return [
            compare(f"{label}: {case.name}", name, actual=outputs[name], expected=expected)
            for name, expected in case.expected.items()
        ]


@dataclass(frozen=True, kw_only=True)
class ServingCheck:
    """What to serve, what to ask, and how near the answers have to be."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    cases: Sequence[Case]
    accept: Accept
    precision: Precision
    max_batch: int
    """0 where tensors have no batch dimension: then every case is a request of its own."""
    work: Path
    """A folder of the check's own, for what it unpacks and for the server's logs."""

    def run(self) -> ServedCheck:
        """Serve in both hosting modes; raises ParityError, ServingError or the server's own failure."""
        if not self.cases:
            raise ServingError(
                f"there is nothing to ask {self.entry!r}, so nothing would be proven",
                remedy="give test inputs with their right answers in model.yaml",
            )
        unpacked = self.work / "single"
        unpack(self.packed.file, unpacked, limit_bytes=self.packed.unpacked_bytes)
        facts = read_facts(unpacked)
        if facts.decoupled:
            raise ServingError(
                f"{', '.join(facts.decoupled)} answers in streams (model_transaction_policy.decoupled), "
                "which SageMaker's front end refuses and this check cannot compare",
                remedy="serve it without `decoupled`; what has not been checked is not published",
            )
        comparisons, latency, largest = self._single_model(unpacked)
        # Multi-model hosting keeps each model's files in a folder of their own.
        hosted = self.work / "multi" / HOSTED_AS / "model"
        hosted.parent.mkdir(parents=True)
        unpacked.rename(hosted)
        comparisons += self._multi_model(self.work / "multi", cached=bool(facts.cached))
        report = judge("served", comparisons, self.accept, precision=self.precision)
        shared_memory = facts.python_processes * _shared_memory(largest)
        return ServedCheck(report, latency, served_by(self.installation), shared_memory)

    def _single_model(self, root: Path) -> tuple[list[Comparison], tuple[LatencyReport, ...], int]:
        with self._start(root, container_variables({}, model=self.entry)) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            entrance = _Entrance(server, "/invocations", {})
            comparisons = [*self._alone(entrance), *self._together(entrance), *self._at_once(entrance)]
            judge("served", comparisons, self.accept, precision=self.precision)
            return comparisons, tuple(self._latencies(entrance)), entrance.largest

    def _multi_model(self, root: Path, *, cached: bool) -> list[Comparison]:
        variables = container_variables(CACHE if cached else {}, model=None)
        target = {"X-Amzn-SageMaker-Target-Model": f"{self.entry}/{self.packed.digest}/model.tar.gz"}
        with self._start(root, {**variables, "SAGEMAKER_MULTI_MODEL": "true"}) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            order = {"model_name": HOSTED_AS, "url": f"{server.model_root}/{HOSTED_AS}/model"}
            reply = server.request(
                "POST",
                "/models",
                body=json.dumps(order).encode(),
                headers={"Content-Type": "application/json", **target},
                timeout_s=READY_WITHIN_S,
            )
            if reply.status != 200:
                raise ServingError(
                    f"multi-model hosting does not load the artifact: {reply.status} "
                    f"{reply.body.decode(errors='replace')[:500]}\n{server.log_tail()}"
                )
            entrance = _Entrance(server, f"/models/{HOSTED_AS}/invoke", target)
            asked = [*self.cases, *self.cases] if cached else self.cases
            return [comparison for case in asked for comparison in entrance.compare("multi-model", case)]

    def _start(self, root: Path, variables: Mapping[str, str]) -> TritonServer:
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=variables,
            state_dir=self.work / f"{root.name}-server",
        )

    def _alone(self, entrance: _Entrance) -> Iterator[Comparison]:
        for case in self.cases:
            yield from entrance.compare("alone", case)

    def _together(self, entrance: _Entrance) -> Iterator[Comparison]:
        for joined in batches(self.cases, self.max_batch):
            yield from entrance.compare("together", joined)

    def _at_once(self, entrance: _Entrance) -> Iterator[Comparison]:
        """Requests of different lengths at the same time: what the batcher may mix up."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            crowd = [*self.cases, *reversed(self.cases)]
            for comparisons in pool.map(lambda case: entrance.compare("at once", case), crowd):
                yield from comparisons

    def _latencies(self, entrance: _Entrance) -> Iterator[LatencyReport]:
        usual = [case for case in self.cases if case.typical] or self.cases
        if not self.max_batch:
            yield _measure(entrance, usual[0].inputs, batch=1, requests=MEASURED_REQUESTS["one"])
            return
        rows = [row for case in same_shapes(usual)[0] for row in rows_of(case)]
        yield _measure(entrance, rows[0].inputs, batch=1, requests=MEASURED_REQUESTS["one"])
        if self.max_batch > 1:
            full = join_cases(list(itertools.islice(itertools.cycle(rows), self.max_batch)))
            yield _measure(entrance, full.inputs, batch=self.max_batch, requests=MEASURED_REQUESTS["full"])


def rows_of(case: Case) -> list[Case]:
    """A case of several rows as so many of one."""
    return [
        Case(
            f"{case.name}, row {row + 1}",
            {name: array[row : row + 1] for name, array in case.inputs.items()},
            {name: array[row : row + 1] for name, array in case.expected.items()},
            typical=case.typical,
        )
        for row in range(_rows(case))
    ]


def batches(cases: Sequence[Case], max_batch: int) -> Iterator[Case]:
    """Cases of the same shapes as rows of common requests, as many as one takes; none without batching."""
    if not max_batch:
        return
    for alike in same_shapes(cases):
        size = max(1, max_batch // _rows(alike[0]))
        for begin in range(0, len(alike), size):
            yield join_cases(alike[begin : begin + size])


def _rows(case: Case) -> int:
    return len(next(iter(case.inputs.values())))


def _shared_memory(largest: int) -> int:
    """What a process has for a request and its answer, which lie there together."""
    grown = -(-largest // SHARED_MEMORY_STEP) * SHARED_MEMORY_STEP
    return max(SHARED_MEMORY_START, grown)


def served_by(installation: TritonInstallation) -> ServedBy:
    """The server's kind and version, and the version of the Python that its models run in."""
    folder = str(installation.path[0]) if installation.path else None
    python = subprocess.run(
        [
            f"{folder}/python3" if folder else "python3",
            "-c",
            "import platform; print(platform.python_version())",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return ServedBy(kind=installation.kind, triton=installation.version, python=python.stdout.strip())


def _measure(entrance: _Entrance, inputs: Mapping[str, Array], *, batch: int, requests: int) -> LatencyReport:
    entrance.ask(inputs)
    times = []
    for _ in range(requests):
        begin = time.perf_counter()
        entrance.ask(inputs)
        times.append((time.perf_counter() - begin) * 1000)
    p50, p99 = np.percentile(times, [50, 99])
    return LatencyReport(
        batch=batch, requests=requests, p50_ms=round(float(p50), 2), p99_ms=round(float(p99), 2)
    )
