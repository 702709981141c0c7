"""Choose between layouts of a model by measurement, for `precision: auto`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from model_build.checking.layout_timing import LayoutTime, time_layouts
from model_build.data.cases import Case, row_count
from model_build.data.context import BuildContext
from model_build.data.graphs import ServableGraph
from model_build.errors import ServingError
from model_build.layouts.layout import Layout, in_types_of
from model_build.progress import BuildSteps
from tritonstack.base.files import folder_bytes
from tritonstack.files.records.manifests import RECORDED, CandidateReport

if TYPE_CHECKING:
    from model_build.exporters.framework import Framework

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
