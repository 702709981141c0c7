"""Choose between layouts of a model by measurement, for `precision: auto`."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from model_build.checking.archive_checks import served_repository
from model_build.checking.served_model import InvocationClient
from model_build.data import BuildContext, Case, ServableGraph, row_count
from model_build.errors import ServingError, SilentModelError
from model_build.layouts.layout import Layout, in_types_of
from model_build.progress import BuildSteps
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import folder_bytes
from tritonstack.client import encode_request
from tritonstack.client.codec import EncodedRequest
from tritonstack.files.records.manifests import RECORDED, CandidateReport
from tritonstack.triton import TritonInstallation
from tritonstack.triton.errors import TritonFailedError, TritonRequestError
from tritonstack.triton.processor_time import processor_seconds

if TYPE_CHECKING:
    from model_build.exporters.framework import Framework

# Compare repositories with the same model in different layouts: CPU time per request in a real Triton. Only
# the server that will run the artifact knows what a layout costs: its backends, batches, and transfers
# between processes. Callers ask concurrently, so that Triton batches as it does under load. CPU time hardly
# depends on other programs; layouts take turns, and the least disturbed round counts.

MOST_CALLERS, WAVE_S = 32, 2.0
"""Concurrent callers, and the time within which one core would answer all of them: slow models have fewer."""
ROUNDS, ROUND_S = 3, 1.0


@dataclass(frozen=True)
class LayoutTime:
    """What a layout costs, or why it cannot be served."""

    milliseconds: float | None = None
    """CPU time per request."""
    callers: int = MOST_CALLERS
    """Concurrent callers while it was measured."""
    violation: str = ""
    was_silent: bool = False
    """Whether Triton got no heartbeat from a model process, as on an overloaded machine."""


def time_layouts(
    repositories: Mapping[str, Path],
    requests: Sequence[Mapping[str, NDArray[Any]]],
    *,
    entry: str,
    installation: TritonInstallation,
    work: Path,
) -> dict[str, LayoutTime]:
    """Serve all repositories at once, and measure them in turn; once more if a model process was silent."""
    encoded = [encode_request(inputs) for inputs in requests]

    def measured(attempt: int) -> dict[str, LayoutTime]:
        with ExitStack() as running:
            layouts = [
                _Layout(
                    name,
                    served_repository(
                        repository,
                        entry,
                        installation=installation,
                        state_dir=work / f"layout-{number}-{attempt}",
                    ),
                )
                for number, (name, repository) in enumerate(repositories.items())
            ]
            for layout in layouts:
                layout.attempt(lambda each: each.enter(running, encoded[0]))
            callers = _callers(max(layout.seconds_alone for layout in layouts))
            for _ in range(1 + ROUNDS):  # the first one warms up
                for layout in layouts:
                    layout.attempt(lambda each: each.costs.append(_cost(each.client, encoded, callers)))
            return {layout.name: layout.result(callers) for layout in layouts}

    times = measured(1)
    return measured(2) if any(each.was_silent for each in times.values()) else times


@dataclass
class _Layout:
    """A layout while it is measured."""

    name: str
    served: AbstractContextManager[InvocationClient]
    client: Any = None
    seconds_alone: float = 0.0
    costs: list[float] = field(default_factory=list)
    failure: TritonstackError | None = None

    def enter(self, running: ExitStack, request: EncodedRequest) -> None:
        """Start the server; time one request, after one that warms up."""
        self.client = running.enter_context(self.served)
        self.client.post(request.body, request.content_type)
        begin = time.monotonic()
        self.client.post(request.body, request.content_type)
        self.seconds_alone = time.monotonic() - begin

    def attempt(self, action: Callable[[_Layout], None]) -> None:
        """Run a step, unless an earlier one failed; the other layouts can still be chosen."""
        if self.failure is None:
            try:
                action(self)
            except (ServingError, TritonFailedError, TritonRequestError) as error:
                self.failure = error

    def result(self, callers: int) -> LayoutTime:
        """Return what was measured; the first round has warmed up."""
        if self.failure is not None:
            silent = isinstance(self.failure, SilentModelError)
            return LayoutTime(None, callers, self.failure.message, silent)
        return LayoutTime(round(min(self.costs[1:]), 3), callers)


def _callers(seconds_alone: float) -> int:
    """Return the number of callers for requests that take so long alone."""
    return max(1, min(MOST_CALLERS, int(WAVE_S / max(seconds_alone, 1e-6))))


def _cost(client: InvocationClient, requests: Sequence[EncodedRequest], callers: int) -> float:
    """Send requests for one round; return the server's CPU milliseconds per request."""
    before = processor_seconds(client.server.pid)
    answered = _send(client, requests, callers)
    return (processor_seconds(client.server.pid) - before) * 1000 / answered


def _send(client: InvocationClient, requests: Sequence[EncodedRequest], callers: int) -> int:
    """Send requests from all callers for one round; return how many were answered."""
    deadline = time.monotonic() + ROUND_S
    following = itertools.cycle(requests)

    def ask(_: int) -> int:
        answered = 0
        while not answered or time.monotonic() < deadline:
            request = next(following)
            client.post(request.body, request.content_type)
            answered += 1
        return answered

    with ThreadPoolExecutor(callers) as pool:
        return sum(pool.map(ask, range(callers)))


LEAST_SAVING = 1.15
"""How many times less CPU time a layout must need to be preferred. Far above the measurement error."""


class Chosen(NamedTuple):
    """A layout, and what was measured of all."""

    layout: Layout[Any]
    candidates: tuple[CandidateReport, ...] = ()


class _Trial(NamedTuple):
    """A layout that can be chosen."""

    layout: Layout[Any]
    time: LayoutTime
    size_bytes: int


def choose_layout(
    layout: Layout[Any],
    graph: ServableGraph,
    framework: Framework,
    cases: Sequence[Case],
    context: BuildContext,
    steps: BuildSteps,
) -> Chosen:
    """Return the layout itself, or the cheapest of its alternatives if it has any.

    The first alternative is the default. A recorded choice of an earlier build is reused.
    """
    layouts = layout.alternatives(graph, framework, context)
    if not layouts:
        return Chosen(layout)
    if context.recorded_choice is not None:
        # A recorded choice omits the default layout if the local server measured it, because only an image's
        # own backends tell what layouts cost. So a build in the image measures again: no layout is named "".
        default = "" if context.installation.kind == "container" else next(iter(layouts))
        name = context.recorded_layout or default
        if name in layouts:
            return Chosen(layouts[name], (_report(name, graph, kept=True, reason=RECORDED),))
    trials = steps.run("time layouts", lambda: _timed(layouts, graph, framework, cases, context), _describe)
    kept = _cheapest(trials)
    return Chosen(
        layouts[kept],
        tuple(
            _report(name, graph, kept=name == kept, reason=_reason(name, kept, trials), trial=trial)
            for name, trial in trials.items()
        ),
    )


def _timed(
    layouts: Mapping[str, Layout[Any]],
    graph: ServableGraph,
    framework: Framework,
    cases: Sequence[Case],
    context: BuildContext,
) -> dict[str, _Trial]:
    folder = context.folder / "layouts"
    repositories = {}
    for number, (name, layout) in enumerate(layouts.items()):
        copy = shutil.copytree(graph.folder, folder / f"graph-{number}")  # write moves it
        repositories[name] = folder / f"repository-{number}"
        layout.write(repositories[name], replace(graph, folder=copy), framework, context)
    inputs = next(iter(layouts.values())).inputs(graph)
    single = [case for case in cases if case.typical and row_count(case) == 1]
    times = time_layouts(
        repositories,
        [in_types_of(case.inputs, inputs) for case in single],
        entry=context.model.record.name,
        installation=context.installation,
        work=folder,
    )
    sizes = {name: folder_bytes(repository) for name, repository in repositories.items()}
    shutil.rmtree(folder)
    return {name: _Trial(layout, times[name], sizes[name]) for name, layout in layouts.items()}


def _cheapest(trials: Mapping[str, _Trial]) -> str:
    """Return the first layout, or a later one that needs at least LEAST_SAVING times less CPU time."""
    served = {
        name: trial.time.milliseconds for name, trial in trials.items() if trial.time.milliseconds is not None
    }
    if not served:
        raise ServingError(
            "; ".join(f"{name}: {trial.time.violation}" for name, trial in trials.items()),
            remedy="correct the model as the message says",
        )
    cheapest = next(iter(served))
    for name, milliseconds in served.items():
        if served[cheapest] >= LEAST_SAVING * milliseconds:
            cheapest = name
    return cheapest


def _report(
    name: str, graph: ServableGraph, *, kept: bool, reason: str, trial: _Trial | None = None
) -> CandidateReport:
    time = trial.time if trial else LayoutTime()
    return CandidateReport(
        name=name,
        precision=graph.precision,
        kept=kept,
        reason=reason,
        latency_ms={} if time.milliseconds is None else {f"{time.callers} callers": time.milliseconds},
        size_bytes=trial.size_bytes if trial else 0,
    )


def _reason(name: str, kept: str, trials: Mapping[str, _Trial]) -> str:
    own, best = trials[name].time, trials[kept].time.milliseconds
    if own.milliseconds is None or best is None:
        return own.violation.partition("\n")[0]  # without the server's log
    if name == kept:
        return "the least CPU time per request, or within the margin of it"
    return f"{own.milliseconds / best:.2f} times the CPU time per request of {kept}"


def _describe(trials: Mapping[str, _Trial]) -> str:
    kept = _cheapest(trials)
    return f"chose {kept}; " + "; ".join(
        f"{name} failed" if trial.time.milliseconds is None else f"{name} {trial.time.milliseconds} ms"
        for name, trial in trials.items()
    )
