"""Serve a packed archive with a real Triton, as an endpoint does, and compare its answers.

The server gets the same environment variables as an endpoint's container.

A model with one answer per request is served in single-model hosting, with each case alone, batched, and
concurrent; and in multi-model hosting, which loads and invokes it through SageMaker's API. Both modes load a
small artifact at the same time. They answer one after the other, so that latency measures one server. The
response cache is on in multi-model hosting only, so that single-model latency measures the model. For a
stateful model, the cases form one sequence, sent repeatedly and concurrently.

Requests to a decoupled model have the JSON form of Triton's generate extension, because SageMaker's front
end takes no other. Each test input is sent alone, then all at once, and the responses are read while they
arrive: a model that never sends its final flag is stopped by a time limit. Only single-model endpoints serve
such archives.

Triton stops a model process that sends no heartbeat for a second, so an overloaded machine looks like a
crash. A check then runs once more on a new server, because the old one may return a late answer to the next
request. A real crash happens again.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from model_build.checking.parity import Stage, compare, judge
from model_build.checking.served_model import (
    AT_ONCE,
    MEASURED_REQUESTS,
    WHOLE_LOG,
    InvocationClient,
    RequestPlan,
    ServingReport,
    ask_in_order,
    measure,
    require_success,
    served_by,
    with_errors,
)
from model_build.data import Case
from model_build.errors import ParityError, ServingError, SilentModelError
from model_build.repository.properties import read_instances, read_properties
from model_build.resources import available_memory
from model_build.store.archive import PackedArchive, unpack_own
from tritonstack.client.streaming import flat_inputs, read_responses, response_array
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, ContainerOptions, container_variables
from tritonstack.facts.threads import Threads
from tritonstack.files.model.tolerance import ModelTolerance, PrecisionOption
from tritonstack.files.records.comparing import Comparison
from tritonstack.files.records.manifests import LatencyReport, ParityReport, TensorSpec
from tritonstack.triton import TritonInstallation, TritonResponse, TritonServer, TritonTimeoutError
from tritonstack.triton.server import count_gpus

READY_WITHIN_S = 120.0
AGAIN = "Triton got no heartbeat from a model process, as on an overloaded machine; retrying"
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class ArchiveCheck:
    """What to serve, the cases, and their tolerance."""

    installation: TritonInstallation
    packed: PackedArchive
    entry: str
    cases: Sequence[Case]
    accept: ModelTolerance = field(default_factory=ModelTolerance)
    precision: PrecisionOption = "fp32"
    work: Path
    """Folder for unpacked files and server logs."""
    arguments: tuple[str, ...] = ()
    """Extra Triton arguments, the same as on an endpoint."""
    notify: Callable[[str], None] = print
    """Called with a message when a step is retried."""

    def start(
        self,
        root: Path,
        mode: str,
        options: ContainerOptions,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> TritonServer:
        """Start a server with the variables of an endpoint's container, and some more."""
        required = {ADDITIONAL_ARGS: " ".join(self.arguments)} if self.arguments else {}
        return TritonServer.start(
            installation=self.installation,
            model_root=root,
            environment=container_variables({**required, **variables}, options),
            state_dir=self.work / f"{mode}-server",
        )

    def judge(self, comparisons: Sequence[Comparison], stage: Stage = "served") -> ParityReport:
        """Return the report; raise ParityError with a table of all misses."""
        return judge(stage, comparisons, self.accept, precision=self.precision)

    def with_retry(self, serve: Callable[[], Result]) -> Result:
        """Serve, and once more if a model process was silent."""
        try:
            return serve()
        except SilentModelError:
            self.notify(AGAIN)
            return serve()


def own_threads(repository: Path) -> Threads:
    """Return the threads of an endpoint with the cores of this machine."""
    instances = read_instances(repository, gpu=False)
    cores = len(os.sched_getaffinity(0))
    return Threads(cores, instances.most, instances.graphs_decide_threads, instances.least_threads)


@contextmanager
def served_repository(
    repository: Path, entry: str, *, installation: TritonInstallation, state_dir: Path
) -> Iterator[InvocationClient]:
    """Serve a repository as a single-model endpoint does."""
    variables = container_variables({}, ContainerOptions(entry, threads=own_threads(repository)))
    with TritonServer.start(
        installation=installation, model_root=repository, environment=variables, state_dir=state_dir
    ) as server:
        server.wait_ready(timeout_s=READY_WITHIN_S)
        yield InvocationClient(server, "/invocations", {})


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


RESPONSES_WITHIN_S = 60.0
"""All responses to one request; most models send them in seconds."""
_CORRECT = f"correct the model's code; {WHOLE_LOG}"
Response = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StreamCheck(ArchiveCheck):
    """The check of a decoupled model, whose cases have several responses each."""

    within_s: float = RESPONSES_WITHIN_S

    def run(self) -> ServingReport:
        """Serve the archive and send every case; raise ParityError or ServingError on failure."""
        root = self.work / "single"
        unpack_own(self.packed, root)
        return self.with_retry(lambda: self._serve(root))

    def _serve(self, root: Path) -> ServingReport:
        options = ContainerOptions(self.entry, threads=own_threads(root), streams=True)
        with self.start(root, "single", options) as server:
            server.wait_ready(timeout_s=READY_WITHIN_S)
            comparisons = [part for case in self.cases for part in self._compare(server, "alone", case)]
            self.judge(comparisons)
            crowd = [*self.cases, *reversed(self.cases)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for part in pool.map(lambda case: list(self._compare(server, "at once", case)), crowd):
                    comparisons += part
            first = self.cases[0]
            latency = measure(lambda: self._ask(server, first), batch=1, requests=MEASURED_REQUESTS["one"])
            memory = server.shared_memory_held()
        return ServingReport(self.judge(comparisons), (latency,), served_by(self.installation), memory)

    def _compare(self, server: TritonServer, label: str, case: Case) -> Iterator[Comparison]:
        responses = self._ask(server, case)
        if len(responses) != len(case.responses):
            raise ParityError(
                f"{case.name} got {len(responses)} responses; expected {len(case.responses)}",
                remedy="correct the model, or the expected responses",
            )
        for number, (response, expected) in enumerate(zip(responses, case.responses, strict=True), start=1):
            if missing := sorted(expected.keys() - response.keys()):
                raise ServingError(
                    with_errors(f"response {number} to {case.name} lacks {', '.join(missing)}", server),
                    remedy="send every expected output with each response",
                )
            for name, right in expected.items():
                actual = response_array(response[name], like=right)
                yield compare(f"{label}: {case.name}, response {number}", name, actual=actual, expected=right)

    def _ask(self, server: TritonServer, case: Case) -> list[Response]:
        """Return all responses to one request; raise ServingError if one is an error, or none is final."""
        responses: list[Response] = []
        body = json.dumps(flat_inputs(case.inputs)).encode()
        try:
            reply = asyncio.run(self._read(server, body, responses))
        except TritonTimeoutError as error:
            state = f"{case.name} got {len(responses)} responses"
            raise ServingError(
                with_errors(f"{state}, and no final flag within {self.within_s:.0f} s", server),
                remedy="send flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL with the last response, or "
                "alone after it, for every request, also after an error",
            ) from error
        require_success(reply, server, f"{case.name}: the served artifact returned")
        for number, response in enumerate(responses):
            if "error" in response:
                failed = f"{case.name} failed after {number} responses: {response['error']}"
                raise ServingError(with_errors(failed, server), remedy=_CORRECT)
        if not responses:
            raise ServingError(
                f"{case.name} got the final flag without any response",
                remedy="send at least one response to every request, or an error",
            )
        return responses

    async def _read(self, server: TritonServer, body: bytes, responses: list[Response]) -> TritonResponse:
        """Add the responses to a list while they arrive; return the status, and the body of an error."""
        headers = {"Content-Type": "application/json"}
        stream = await server.stream(
            "POST", "/invocations", body=body, headers=headers, timeout_s=self.within_s
        )
        received = b""
        try:
            if stream.status != 200:
                body = await stream.whole()
                return TritonResponse(status=stream.status, headers=stream.headers, body=body)
            async for part in stream.parts():
                received += part
                whole, separator, received = received.rpartition(b"\n")
                content_type = stream.headers["content-type"]
                responses += read_responses([whole + separator], content_type=content_type)
            return TritonResponse(status=stream.status, headers=stream.headers, body=received)
        finally:
            stream.close()


def unsendable(case: Case, tensors: Sequence[TensorSpec], *, batches: bool) -> str | None:
    """Say why Triton would give an input another shape; None if flat lists describe all inputs.

    Triton fills the last variable dimension, and sets all others to 1.
    """
    dims = {tensor.name: ((-1,) if batches else ()) + tuple(tensor.shape) for tensor in tensors}
    for name, array in case.inputs.items():
        variable = [size for size, dim in zip(array.shape, dims[name], strict=True) if dim == -1]
        if any(size != 1 for size in variable[:-1]):
            return f"{name} has the shape {list(array.shape)} and the dims {list(dims[name])}"
    return None
