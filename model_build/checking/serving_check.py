"""Serves the packed archive with a real Triton, as an endpoint will, and compares its answers.

The server gets the very variables that an endpoint's containers get.

In single-model hosting every case is asked alone, all together, and all at the same time in requests of
their own; in multi-model hosting the archive is loaded and asked through the API that SageMaker uses there.
A model that wants a response cache has one there, and is asked twice; in single-model hosting it has none,
so that what is measured is the model.

A model's process of which Triton hears nothing for a second is given up by it: a machine that is too busy
looks like a model that has crashed. Then the check is done once more, with a server of its own, because the
old one may hand out the late answer as that to the next request. What crashes does so again.

To a model that keeps a state the cases are one sequence, in their order: it is sent again and again, and two
at the same time must not meet.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from model_build.checking.cases import Case
from model_build.checking.parity import judge
from model_build.checking.request_plan import RequestPlan, ask_in_order
from model_build.checking.served_model import InvocationClient, ServingReport, require_success, served_by
from model_build.errors import ServingError, SilentModelError
from model_build.repository.properties import read_properties
from model_build.store.archive import PackedArchive, unpack_own
from tritonstack.records.comparing import Comparison
from tritonstack.records.manifests import LatencyReport
from tritonstack.reference.container_variables import ADDITIONAL_ARGS, Served, container_variables
from tritonstack.runtime import TritonInstallation, TritonServer
from tritonstack.spec.models.tolerance import Accept, WantedPrecision

READY_WITHIN_S = 120.0
HOSTED_AS = "tritonstack-check"
AGAIN = "Triton heard nothing of a model's process, as on a machine that is too busy: serving once more"
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ServingCheck:
    """What to serve, what to ask, and how near the answers have to be."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    cases: Sequence[Case]
    accept: Accept
    precision: WantedPrecision
    max_batch: int
    """0 where tensors have no batch dimension: then every case is a request of its own."""
    work: Path
    """A folder of the check's own, for what it unpacks and for the server's logs."""
    arguments: tuple[str, ...] = ()
    """What Triton has to be told, there as on an endpoint."""
    notify: Callable[[str], None]
    """Hears of what is done twice."""

    def run(self) -> ServingReport:
        """Serve in both hosting modes; raises ParityError, ServingError or the server's own failure."""
        if not self.cases:
            raise ServingError(
                f"there is nothing to ask {self.entry!r}, so nothing would be proven",
                remedy="give test inputs with their right answers in model.yaml",
            )
        unpacked = self.work / "single"
        unpack_own(self.packed, unpacked)
        plan = RequestPlan(self.cases, self.max_batch, read_properties(unpacked))
        comparisons, latency, shared_memory = self._patiently(lambda: self._single_model(unpacked, plan))
        # Multi-model hosting keeps each model's files in a folder of their own.
        hosted = self.work / "multi" / HOSTED_AS / "model"
        hosted.parent.mkdir(parents=True)
        unpacked.rename(hosted)
        comparisons += self._patiently(lambda: self._multi_model(self.work / "multi", plan))
        report = judge("served", comparisons, self.accept, precision=self.precision)
        return ServingReport(report, latency, served_by(self.installation), shared_memory)

    def _patiently(self, serve: Callable[[], Result]) -> Result:
        try:
            return serve()
        except SilentModelError:
            self.notify(AGAIN)
            return serve()

    def _single_model(
        self, root: Path, plan: RequestPlan
    ) -> tuple[list[Comparison], tuple[LatencyReport, ...], int]:
        with self._start(root, container_variables(self._given(), Served(self.entry))) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            client = InvocationClient(server, "/invocations", {})
            comparisons = list(plan.thoroughly(client))
            judge("served", comparisons, self.accept, precision=self.precision)
            return comparisons, tuple(plan.latencies(client)), server.shared_memory_held()

    def _multi_model(self, root: Path, plan: RequestPlan) -> list[Comparison]:
        variables = container_variables(self._given(), Served(keeps_answers=plan.properties.keeps_answers))
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
            require_success(reply, server, "multi-model hosting does not load the artifact:")
            client = InvocationClient(server, f"/models/{HOSTED_AS}/invoke", target)
            times = 2 if plan.properties.keeps_answers else 1
            rounds = itertools.chain.from_iterable(plan.series() for _ in range(times))
            return list(ask_in_order(client, "multi-model", rounds))

    def _given(self) -> Mapping[str, str]:
        """What an endpoint's file would have to give its containers for this model."""
        return {ADDITIONAL_ARGS: " ".join(self.arguments)} if self.arguments else {}

    def _start(self, root: Path, variables: Mapping[str, str]) -> TritonServer:
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=variables,
            state_dir=self.work / f"{root.name}-server",
        )
