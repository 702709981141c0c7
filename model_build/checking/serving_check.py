"""Serve the packed archive with a real Triton, as an endpoint does, and compare its answers.

The server gets the same environment variables as an endpoint's container. Single-model hosting: each case
alone, batched, and concurrently. Multi-model hosting: load and invoke through SageMaker's API. The response
cache is on in multi-model hosting only, so that single-model latency measures the model.

Both modes load a small artifact at the same time. They answer one after the other, so that latency measures
one server.

For a stateful model, the cases form one sequence, sent repeatedly and concurrently.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_build.checking.archive_check import READY_WITHIN_S, ArchiveCheck, own_threads
from model_build.checking.request_plan import RequestPlan, ask_in_order
from model_build.checking.served_model import InvocationClient, ServingReport, require_success, served_by
from model_build.errors import ServingError
from model_build.repository.properties import read_properties
from model_build.resources import available_memory
from model_build.store.archive import unpack_own
from tritonstack.facts.container_variables import ContainerOptions
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import LatencyReport, ParityReport
from tritonstack.triton import TritonServer
from tritonstack.triton.server import count_gpus

HOSTED_AS = "tritonstack-check"
SMALL_BYTES, MEMORY_FOR_BOTH = 256 << 20, 4 << 30
"""Both hosting modes load an artifact at once if it is this small and this much memory is available."""
Hosted = Future[InvocationClient]
"""Multi-model hosting that is loading the artifact, or has loaded it."""


@dataclass(frozen=True, kw_only=True)
class ServingCheck(ArchiveCheck):
    """The check of a model with one answer per request."""

    max_batch: int
    """0 if tensors have no batch dimension: each case is then its own request."""
    compared: bool = True
    """Whether the cases have expected answers; else they have those of an earlier run of this model."""

    def run(self) -> ServingReport:
        """Serve in both hosting modes; raise ParityError or ServingError on failure."""
        if not self.cases:
            raise ServingError(
                f"{self.entry!r} has no test inputs to check",
                remedy="add `test_inputs` with expected outputs to model.yaml",
            )
        # Multi-model hosting needs each model in its own folder.
        root = self.work / "multi" / HOSTED_AS / "model"
        root.parent.mkdir(parents=True)
        unpack_own(self.packed, root)
        plan = RequestPlan(self.cases, self.max_batch, read_properties(root))
        with ExitStack() as stack:
            hosted = stack.enter_context(self._hosted(plan)) if self._fits_twice() else None
            comparisons, latency, shared_memory = self.with_retry(
                lambda: self._single_model(root, plan, hosted)
            )
            attempts = iter([hosted])
            comparisons += self.with_retry(lambda: self._multi_model(plan, next(attempts, None)))
        report = self._report(comparisons)
        server = served_by(self.installation)
        if not self.compared:
            return ServingReport(None, latency, server, shared_memory, repeated=len(comparisons))
        return ServingReport(report, latency, server, shared_memory)

    def _report(self, comparisons: Sequence[Comparison]) -> ParityReport:
        return self.judge(comparisons, "served" if self.compared else "repeated")

    def _fits_twice(self) -> bool:
        """Return whether both hosting modes may load the artifact at once: loading takes one core."""
        is_small = self.packed.unpacked_bytes <= SMALL_BYTES
        return is_small and count_gpus() == 0 and available_memory() >= MEMORY_FOR_BOTH

    def _single_model(
        self, root: Path, plan: RequestPlan, hosted: Hosted | None
    ) -> tuple[list[Comparison], tuple[LatencyReport, ...], int]:
        options = ContainerOptions(self.entry, threads=own_threads(root))
        with self.start(root, "single", options) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            wait([hosted] if hosted else [])  # nothing else may run while latency is measured
            client = InvocationClient(server, "/invocations", {})
            comparisons = list(plan.thoroughly(client))
            self._report(comparisons)
            return comparisons, tuple(plan.latencies(client)), server.shared_memory_held()

    def _multi_model(self, plan: RequestPlan, hosted: Hosted | None) -> list[Comparison]:
        if hosted is None:
            with self._hosted(plan) as started:
                return self._multi_model(plan, started)
        times = 2 if plan.properties.keeps_answers else 1
        rounds = itertools.chain.from_iterable(plan.series() for _ in range(times))
        return list(ask_in_order(hosted.result(), "multi-model", rounds))

    @contextmanager
    def _hosted(self, plan: RequestPlan) -> Iterator[Hosted]:
        """Start multi-model hosting, and load the artifact in the background."""
        root = self.work / "multi"
        options = ContainerOptions(keeps_answers=plan.properties.keeps_answers, threads=own_threads(root))
        # The server stops before the thread is joined: a request that fails ends the thread.
        with (
            ThreadPoolExecutor(1) as pool,
            self.start(root, "multi", options, {"SAGEMAKER_MULTI_MODEL": "true"}) as server,
        ):
            yield pool.submit(self._load, server)

    def _load(self, server: TritonServer) -> InvocationClient:
        """Load the artifact through SageMaker's API."""
        server.wait_ready(timeout_s=READY_WITHIN_S)
        target = {"X-Amzn-SageMaker-Target-Model": f"{self.entry}/{self.packed.digest}/model.tar.gz"}
        order = {"model_name": HOSTED_AS, "url": f"{server.model_root}/{HOSTED_AS}/model"}
        reply = server.request(
            "POST",
            "/models",
            body=json.dumps(order).encode(),
            headers={"Content-Type": "application/json", **target},
            timeout_s=READY_WITHIN_S,
        )
        require_success(reply, server, "multi-model hosting cannot load the artifact:")
        return InvocationClient(server, f"/models/{HOSTED_AS}/invoke", target)
