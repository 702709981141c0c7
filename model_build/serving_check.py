"""Serves the packed archive with a real Triton, as an endpoint will, and compares its answers.

In single-model hosting every case is asked alone, all together, and all at the same time in requests of
their own; in multi-model hosting the archive is loaded and asked through the API that SageMaker uses there.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.accepting import Accept, Precision
from catalog.manifests import LatencyReport, ParityReport, ServedBy
from endpoint_client import decode_reply, encode_request
from model_build.archive import PackedArchive, unpack
from model_build.cases import Case, join_cases, same_shapes
from model_build.errors import ServingError
from model_build.parity import Comparison, compare, judge
from triton_runtime import TritonInstallation, TritonServer

Array = NDArray[Any]
READY_WITHIN_S = 120.0
REQUEST_WITHIN_S = 120.0
MEASURED_REQUESTS = {"one": 50, "full": 8}
AT_ONCE = 8
QUIET = {"SAGEMAKER_TRITON_LOG_VERBOSE": "false"}
HOSTED_AS = "tritonstack-check"


@dataclass(frozen=True)
class ServedCheck:
    """The proof that an archive serves."""

    parity: ParityReport
    latency: tuple[LatencyReport, ...]
    served_by: ServedBy


@dataclass(frozen=True)
class _Entrance:
    """Where requests for the model go."""

    server: TritonServer
    path: str
    headers: Mapping[str, str]

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
        return decode_reply(reply.body, content_type=reply.headers["content-type"]).outputs

    def compare(self, label: str, case: Case) -> list[Comparison]:
        """Ask for one case and compare every output."""
        outputs = self.ask(case.inputs)
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
    work: Path
    """A folder of the check's own, for what it unpacks and for the server's logs."""

    def run(self) -> ServedCheck:
        """Serve in both hosting modes; raises ParityError, ServingError or the server's own failure."""
        unpacked = self.work / "single"
        unpack(self.packed.file, unpacked, limit_bytes=self.packed.unpacked_bytes)
        comparisons, latency = self._single_model(unpacked)
        # Multi-model hosting keeps each model's files in a folder of their own.
        hosted = self.work / "multi" / HOSTED_AS / "model"
        hosted.parent.mkdir(parents=True)
        unpacked.rename(hosted)
        comparisons += self._multi_model(self.work / "multi")
        report = judge("served", comparisons, self.accept, precision=self.precision)
        return ServedCheck(report, latency, served_by(self.installation))

    def _single_model(self, root: Path) -> tuple[list[Comparison], tuple[LatencyReport, ...]]:
        variables = {**QUIET, "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": self.entry}
        with self._start(root, variables) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            entrance = _Entrance(server, "/invocations", {})
            comparisons = [*self._alone(entrance), *self._together(entrance), *self._at_once(entrance)]
            judge("served", comparisons, self.accept, precision=self.precision)
            return comparisons, tuple(self._latencies(entrance))

    def _multi_model(self, root: Path) -> list[Comparison]:
        variables = {**QUIET, "SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TRITON_PING_MODE": "live"}
        target = {"X-Amzn-SageMaker-Target-Model": f"{self.entry}/{self.packed.digest}/model.tar.gz"}
        with self._start(root, variables) as server:
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
            return [comparison for case in self.cases for comparison in entrance.compare("multi-model", case)]

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
        for alike in same_shapes(self.cases):
            for begin in range(0, len(alike), self.max_batch):
                yield from entrance.compare("together", join_cases(alike[begin : begin + self.max_batch]))

    def _at_once(self, entrance: _Entrance) -> Iterator[Comparison]:
        """Requests of different lengths at the same time: what the batcher may mix up."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            crowd = [*self.cases, *reversed(self.cases)]
            for comparisons in pool.map(lambda case: entrance.compare("at once", case), crowd):
                yield from comparisons

    def _latencies(self, entrance: _Entrance) -> Iterator[LatencyReport]:
        typical = same_shapes([case for case in self.cases if case.typical])[0]
        yield _measure(entrance, typical[0].inputs, batch=1, requests=MEASURED_REQUESTS["one"])
        if self.max_batch > 1:
            rows = list(itertools.islice(itertools.cycle(typical), self.max_batch))
            inputs = join_cases(rows).inputs
            yield _measure(entrance, inputs, batch=self.max_batch, requests=MEASURED_REQUESTS["full"])


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
