"""Serve the packed archive with a real Triton, as an endpoint does, and compare its answers.

The server gets the same environment variables as an endpoint's container. Single-model hosting: each case
alone, batched, and concurrently. Multi-model hosting: load and invoke through SageMaker's API. The response
cache is on in multi-model hosting only, so that single-model latency measures the model.

Triton stops a model process that sends no heartbeat for a second, so an overloaded machine looks like a
crash. The check then runs once more on a new server, because the old one may return a late answer to the next
request. A real crash happens again.

For a stateful model, the cases form one sequence, sent repeatedly and concurrently.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from model_build.checking.parity import judge
from model_build.checking.request_plan import RequestPlan, ask_in_order
from model_build.checking.served_model import InvocationClient, ServingReport, require_success, served_by
from model_build.data.cases import Case
from model_build.errors import ServingError, SilentModelError
from model_build.repository.properties import read_instances, read_properties
from model_build.store.archive import PackedArchive, unpack_own
from tritonstack.records.comparing import Comparison
from tritonstack.records.manifests import LatencyReport
from tritonstack.reference.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.reference.threads import Threads
from tritonstack.runtime import TritonInstallation, TritonServer
from tritonstack.spec.models.tolerance import ModelTolerance, PrecisionOption

READY_WITHIN_S = 120.0
HOSTED_AS = "tritonstack-check"
AGAIN = "Triton got no heartbeat from a model process, as on an overloaded machine; retrying"
Result = TypeVar("Result")


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
    notify: Callable[[str], None]
    """Called with a message when a step is retried."""

    def run(self) -> ServingReport:
        """Serve in both hosting modes; raise ParityError or ServingError on failure."""
        if not self.cases:
            raise ServingError(
                f"{self.entry!r} has no test inputs to check",
                remedy="add `test_inputs` with expected outputs to model.yaml",
            )
        unpacked = self.work / "single"
        unpack_own(self.packed, unpacked)
        plan = RequestPlan(self.cases, self.max_batch, read_properties(unpacked))
        comparisons, latency, shared_memory = self._with_retry(lambda: self._single_model(unpacked, plan))
        # Multi-model hosting needs each model in its own folder.
        hosted = self.work / "multi" / HOSTED_AS / "model"
        hosted.parent.mkdir(parents=True)
        unpacked.rename(hosted)
        comparisons += self._with_retry(lambda: self._multi_model(self.work / "multi", plan))
        report = judge("served", comparisons, self.accept, precision=self.precision)
        return ServingReport(report, latency, served_by(self.installation), shared_memory)

    def _with_retry(self, serve: Callable[[], Result]) -> Result:
        try:
            return serve()
        except SilentModelError:
            self.notify(AGAIN)
            return serve()

    def _single_model(
        self, root: Path, plan: RequestPlan
    ) -> tuple[list[Comparison], tuple[LatencyReport, ...], int]:
        options = ContainerOptions(self.entry, threads=_own_threads(root))
        with self._start(root, container_variables(self._required_environment(), options)) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            client = InvocationClient(server, "/invocations", {})
            comparisons = list(plan.thoroughly(client))
            judge("served", comparisons, self.accept, precision=self.precision)
            return comparisons, tuple(plan.latencies(client)), server.shared_memory_held()

    def _multi_model(self, root: Path, plan: RequestPlan) -> list[Comparison]:
        variables = container_variables(
            self._required_environment(),
            ContainerOptions(keeps_answers=plan.properties.keeps_answers, threads=_own_threads(root)),
        )
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
            require_success(reply, server, "multi-model hosting cannot load the artifact:")
            client = InvocationClient(server, f"/models/{HOSTED_AS}/invoke", target)
            times = 2 if plan.properties.keeps_answers else 1
            rounds = itertools.chain.from_iterable(plan.series() for _ in range(times))
            return list(ask_in_order(client, "multi-model", rounds))

    def _required_environment(self) -> Mapping[str, str]:
        """Return the `env` an endpoint would have to set for this model."""
        return {ADDITIONAL_ARGS: " ".join(self.arguments)} if self.arguments else {}

    def _start(self, root: Path, variables: Mapping[str, str]) -> TritonServer:
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=variables,
            state_dir=self.work / f"{root.name}-server",
        )


def _own_threads(repository: Path) -> Threads:
    """Return the threads of an endpoint with the cores of this machine."""
    found = read_instances(repository, gpu=False)
    cores = len(os.sched_getaffinity(0))
    return Threads(cores, found.most, found.graphs_decide_threads, found.least_threads)
