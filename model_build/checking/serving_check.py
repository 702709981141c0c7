"""Serve the packed archive with a real Triton, as an endpoint does, and compare its answers.

The server gets the same environment variables as an endpoint's container. Single-model hosting: each case
alone, batched, and concurrently. Multi-model hosting: load and invoke through SageMaker's API. The response
cache is on in multi-model hosting only, so that single-model latency measures the model.

Triton stops a model process that sends no heartbeat for a second, so an overloaded machine looks like a
crash. The check then runs once more on a new server, because the old one may return a late answer to the next
request. A real crash happens again.

Both modes load a small artifact at the same time. They answer one after the other, so that latency measures
one server.

For a stateful model, the cases form one sequence, sent repeatedly and concurrently.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from model_build.checking.parity import Stage, judge
from model_build.checking.request_plan import RequestPlan, ask_in_order
from model_build.checking.served_model import InvocationClient, ServingReport, require_success, served_by
from model_build.data.cases import Case
from model_build.errors import ServingError, SilentModelError
from model_build.repository.properties import read_instances, read_properties
from model_build.resources import available_memory
from model_build.store.archive import PackedArchive, unpack_own
from tritonstack.records.comparing import Comparison
from tritonstack.records.manifests import LatencyReport, ParityReport
from tritonstack.reference.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.reference.threads import Threads
from tritonstack.runtime import TritonInstallation, TritonServer
from tritonstack.runtime.server import count_gpus
from tritonstack.spec.models.tolerance import ModelTolerance, PrecisionOption

READY_WITHIN_S = 120.0
HOSTED_AS = "tritonstack-check"
AGAIN = "Triton got no heartbeat from a model process, as on an overloaded machine; retrying"
SMALL_BYTES, MEMORY_FOR_BOTH = 256 << 20, 4 << 30
"""Both hosting modes load an artifact at once if it is this small and this much memory is available."""
Result = TypeVar("Result")
Hosted = Future[InvocationClient]
"""Multi-model hosting that is loading the artifact, or has loaded it."""


@dataclass(frozen=True, kw_only=True)
class ServingCheck:
    """What to serve, the cases, and their tolerance."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    cases: Sequence[Case]
    accept: ModelTolerance
    precision: PrecisionOption
    max_batch: int
    """0 if tensors have no batch dimension: each case is then its own request."""
    work: Path
    """Folder for unpacked files and server logs."""
    arguments: tuple[str, ...] = ()
    """Extra Triton arguments, the same as on an endpoint."""
    compared: bool = True
    """Whether the cases have expected answers; else they have those of an earlier run of this model."""
    notify: Callable[[str], None]
    """Called with a message when a step is retried."""

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
            comparisons, latency, shared_memory = self._with_retry(
                lambda: self._single_model(root, plan, hosted)
            )
            attempts = iter([hosted])
            comparisons += self._with_retry(lambda: self._multi_model(plan, next(attempts, None)))
        report = self._judge(comparisons)
        server = served_by(self.installation)
        if not self.compared:
            return ServingReport(None, latency, server, shared_memory, repeated=len(comparisons))
        return ServingReport(report, latency, server, shared_memory)

    def _judge(self, comparisons: Sequence[Comparison]) -> ParityReport:
        stage: Stage = "served" if self.compared else "repeated"
        return judge(stage, comparisons, self.accept, precision=self.precision)

    def _fits_twice(self) -> bool:
        """Return whether both hosting modes may load the artifact at once: loading takes one core."""
        is_small = self.packed.unpacked_bytes <= SMALL_BYTES
        return is_small and count_gpus() == 0 and available_memory() >= MEMORY_FOR_BOTH

    def _with_retry(self, serve: Callable[[], Result]) -> Result:
        try:
            return serve()
        except SilentModelError:
            self.notify(AGAIN)
            return serve()

    def _single_model(
        self, root: Path, plan: RequestPlan, hosted: Hosted | None
    ) -> tuple[list[Comparison], tuple[LatencyReport, ...], int]:
        options = ContainerOptions(self.entry, threads=own_threads(root))
        with self._start(
            root, container_variables(self._required_environment(), options), "single"
        ) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            wait([hosted] if hosted else [])  # nothing else may run while latency is measured
            client = InvocationClient(server, "/invocations", {})
            comparisons = list(plan.thoroughly(client))
            self._judge(comparisons)
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
        variables = container_variables(
            self._required_environment(),
            ContainerOptions(keeps_answers=plan.properties.keeps_answers, threads=own_threads(root)),
        )
        # The server stops before the thread is joined: a request that fails ends the thread.
        with (
            ThreadPoolExecutor(1) as pool,
            self._start(root, {**variables, "SAGEMAKER_MULTI_MODEL": "true"}, "multi") as server,
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

    def _required_environment(self) -> Mapping[str, str]:
        """Return the `env` an endpoint would have to set for this model."""
        return {ADDITIONAL_ARGS: " ".join(self.arguments)} if self.arguments else {}

    def _start(self, root: Path, variables: Mapping[str, str], mode: str) -> TritonServer:
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=variables,
            state_dir=self.work / f"{mode}-server",
        )


def own_threads(repository: Path) -> Threads:
    """Return the threads of an endpoint with the cores of this machine."""
    instances = read_instances(repository, gpu=False)
    cores = len(os.sched_getaffinity(0))
    return Threads(cores, instances.most, instances.graphs_decide_threads, instances.least_threads)
