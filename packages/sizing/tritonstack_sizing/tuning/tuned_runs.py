"""Serve one combination of settings with a real Triton, and measure it under load."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.facts.container_variables import ContainerOptions, container_variables
from tritonstack.facts.threads import OPENMP, Threads
from tritonstack.files.model.triton_options import TritonOptions
from tritonstack.triton import TritonInstallation, TritonServer
from tritonstack.triton.errors import TritonRequestError, TritonTimeoutError
from tritonstack_sizing.loads.arrivals import poisson
from tritonstack_sizing.loads.histograms import percentiles_s
from tritonstack_sizing.loads.requests import PreparedRequest
from tritonstack_sizing.loads.runs import summarize
from tritonstack_sizing.loads.sending import Sent, closed_loop, open_loop, run_loop
from tritonstack_sizing.tuning.objectives import Measured
from tritonstack_sizing.tuning.tuned_builds import Form
from tritonstack_sizing.tuning.tuned_settings import Part, Setting

READY_WITHIN_S = 120.0
ANSWERED_WITHIN_S = 65.0
"""SageMaker ends requests after 60 seconds."""
_PROBE = 1 / 3
"""The share of a run after which a combination that is much worse than the best is given up."""
_HOPELESS = 0.35
"""How much worse: as a logarithm, 30 % less throughput or 42 % more latency."""


@dataclass(frozen=True)
class Load:
    """What is sent to each combination: a closed loop of users, or an open loop with a rate."""

    users: int
    rate: float | None
    seconds: float
    requests: tuple[PreparedRequest, ...]
    seed: int = 1


@dataclass(frozen=True)
class LocalServing:
    """How this machine serves, apart from what is searched."""

    installation: TritonInstallation
    cores: int
    """The cores that the server gets."""
    variables: Mapping[str, str]
    """The variables of the endpoint."""
    work: Path

    @contextmanager
    def served(
        self, form: Form, parts: Mapping[str, Part], values: Sequence[tuple[Setting, Any]]
    ) -> Iterator[TritonServer]:
        """Serve a form with settings of config.pbtxt and variables; leave nothing behind."""
        folder = self.work / "serving"
        shutil.rmtree(folder, ignore_errors=True)
        repository = folder / "model"
        try:
            shutil.copytree(form.repository, repository, copy_function=os.link)
            for setting, value in values:
                if setting.model and not setting.is_built:
                    configure(repository, parts, setting, value)
            with self._start(form, repository, values, folder / "server") as server:
                server.wait_ready(timeout_s=READY_WITHIN_S)
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _start(
        self, form: Form, repository: Path, values: Sequence[tuple[Setting, Any]], state: Path
    ) -> TritonServer:
        # It needs packages of builds, whose absence the command reports first.
        from model_build.repository.properties import read_instances, read_properties  # noqa: PLC0415

        instances = read_instances(repository, gpu=False)
        threads = Threads(
            self.cores, instances.most, instances.graphs_decide_threads, instances.least_threads
        )
        variables = dict(self.variables)
        for setting, value in values:
            if not setting.model:
                variables.pop(OPENMP, None)
                variables |= {} if value is None else {OPENMP: str(value)}
        options = ContainerOptions(
            form.manifest.entry_model,
            keeps_answers=read_properties(repository).keeps_answers,
            threads=threads,
        )
        with _only_cores(self.cores):
            return TritonServer.start(
                installation=self.installation,
                model_root=repository,
                environment=container_variables(variables, options),
                state_dir=state,
            )


def configure(repository: Path, parts: Mapping[str, Part], setting: Setting, value: Any) -> None:
    """Write a setting into config.pbtxt, as the build does for model.yaml."""
    # They need packages of builds, whose absence the command reports first.
    from model_build.repository.config import CONFIG_NAME, read_config, write_config  # noqa: PLC0415
    from model_build.repository.options import place_instances  # noqa: PLC0415

    folder = repository / parts[setting.model].folder
    config = read_config(folder / CONFIG_NAME)
    match setting.field:
        case "instances":
            if not config.instance_group:
                place_instances(config, TritonOptions(), gpu=False)
            config.instance_group[0].count = value
        case "queue_delay_us":
            config.dynamic_batching.max_queue_delay_microseconds = value
        case "max_batch":
            config.max_batch_size = value
        case "batch_tokens":
            if "batch_tokens" not in config.parameters:
                return  # this form has two models
            config.parameters["batch_tokens"].string_value = str(value)
    (folder / CONFIG_NAME).unlink()  # it is a link to the file of the form
    write_config(config, folder)


def measure(
    server: TritonServer, load: Load, *, is_hopeless: Callable[[Measured], bool] | None = None
) -> Measured:
    """Measure a served combination; with `is_hopeless`, end early if its first part shows that it is bad.

    A first part without answers and errors shows nothing: requests may take longer.
    """
    if is_hopeless is None:
        return measure_levels(server, [load])[0]
    parts = [replace(load, seconds=load.seconds * share) for share in (_PROBE, 1 - _PROBE)]
    return measure_levels(
        server, parts, stops=lambda part: is_hopeless(part) if part.usable else part.failed_share > 0
    )[-1]


def measure_levels(
    server: TritonServer, loads: Sequence[Load], *, stops: Callable[[Measured], bool] = lambda _: False
) -> list[Measured]:
    """Measure a served combination under several loads, until a result stops that."""
    results: list[Measured] = []

    async def loop() -> Sent:
        sent = Sent()
        for load in loads:
            sent = await _send(server, load)
            results.append(_measured(sent, load.seconds))
            if stops(results[-1]):
                break
        return sent

    _warm(server, loads[0])
    run_loop(loop())
    return results


def is_far_below(gain: float, best: float | None) -> bool:
    """Return whether a run that reaches this gain is not worth its whole time."""
    return best is not None and gain < best - _HOPELESS


def serving_failure(error: TritonstackError) -> Measured:
    """Return the result of a combination that cannot be built or served."""
    return Measured(0.0, math.nan, math.nan, violation=error.message.splitlines()[0])


@contextmanager
def _only_cores(count: int) -> Iterator[None]:
    """Let processes that start meanwhile use some cores only."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def _warm(server: TritonServer, load: Load) -> None:
    """Send each request once: memory is allocated, and kernels are chosen."""
    for request in load.requests:
        server.request(
            "POST",
            "/invocations",
            body=request.body,
            headers={"Content-Type": request.content_type},
            timeout_s=ANSWERED_WITHIN_S,
        )


async def _send(server: TritonServer, load: Load) -> Sent:
    async def send(number: int) -> str:
        request = load.requests[number % len(load.requests)]
        try:
            reply = await server.exchange(
                "POST",
                "/invocations",
                body=request.body,
                headers={"Content-Type": request.content_type},
                timeout_s=ANSWERED_WITHIN_S,
            )
        except TritonTimeoutError:
            return "timeout"
        except TritonRequestError as error:
            return type(error).__name__
        return "" if reply.status == 200 else f"HTTP {reply.status}"

    if load.rate is not None:
        return await open_loop(send, poisson(load.rate, load.seconds, seed=load.seed).offsets)
    return await closed_loop(send, users=load.users, seconds=load.seconds)


def _measured(sent: Sent, seconds: float) -> Measured:
    run = summarize(sent, load="tune", seconds=seconds, is_trace=False)
    if not run.answered_per_s or not run.latencies.sum():
        errors = ", ".join(f"{name} ({count})" for name, count in run.errors.items())
        reason = (
            f"no answers: {errors}" if errors else f"no answers within {seconds:g} s; use a longer --duration"
        )
        return Measured(0.0, math.nan, math.nan, run.failed_share, reason)
    p50, p99 = (percentiles_s(run.latencies, (50.0, 99.0)) * 1000).tolist()
    return Measured(run.answered_per_s, p50, p99, run.failed_share)
