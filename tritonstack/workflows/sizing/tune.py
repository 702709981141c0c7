"""Search the settings of a model for an objective; the answer is a diff of the project's files."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import model_serializer

from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import write_text_atomically
from tritonstack.base.results import Internal
from tritonstack.base.yaml import read_text
from tritonstack.operations.loads.charts import Curve, draw_curves
from tritonstack.operations.tuning.objectives import Measured
from tritonstack.operations.tuning.search import TunedRun, average, of
from tritonstack.operations.tuning.spaces import Choice
from tritonstack.project.files.yaml_edits import UneditableFileError, message_of, set_value
from tritonstack.project.loading import load_models, load_workspace
from tritonstack.workflows.builds.local_build import BuildInterruptedError
from tritonstack.workflows.session import Session
from tritonstack.workflows.sizing.search_folders import SearchRunningError, only_search
from tritonstack.workflows.sizing.tune_planning import TunePlan, UntunableError
from tritonstack.workflows.sizing.tuned_builds import BuiltValues, Form
from tritonstack.workflows.sizing.tuned_runs import (
    Load,
    is_far_below,
    measure,
    measure_levels,
    serving_failure,
)
from tritonstack.workflows.sizing.tuned_settings import BATCH_TOKENS, Setting, SkippedSetting, parts

_LEVELS = (0.125, 0.25, 0.5, 1.0, 1.5)
"""Loads of the curve, as shares of that of the search."""


@dataclass(frozen=True)
class FileChange:
    """The text of a file before and after."""

    name: str
    """Relative to the project."""
    before: str = field(repr=False)
    after: str = field(repr=False)

    def diff(self) -> str:
        """Return a unified diff."""
        return "".join(
            difflib.unified_diff(
                self.before.splitlines(keepends=True),
                self.after.splitlines(keepends=True),
                f"a/{self.name}",
                f"b/{self.name}",
            )
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredSettings(Measured):
    """The figures of a configuration."""

    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class MeasuredLoad(Measured):
    """The figures of a load."""

    load: float
    """Users or rate."""


@dataclass(frozen=True, kw_only=True)
class TuningDocument:
    """What `--json` prints of a search."""

    model: str
    objective: str
    grid: int
    """Number of possible configurations."""
    most_runs: int
    seconds: float
    server: str
    cores: Any
    runs: Sequence[MeasuredSettings]
    now: MeasuredSettings
    tuned: MeasuredSettings
    meets: bool
    """Whether `tuned` stays within the limits of the objective."""
    curves: Mapping[str, Sequence[MeasuredLoad]]
    skipped: Sequence[SkippedSetting]
    diff: str
    uneditable: str | None
    """Why `--write` cannot change the files."""


@dataclass(frozen=True)
class Tuning:
    """What a search measured, and the files that it proposes."""

    plan: Internal[TunePlan]
    runs: Internal[tuple[TunedRun, ...]]
    best: Internal[Choice]
    changes: Internal[tuple[FileChange, ...]]
    curves: Internal[Mapping[str, tuple[tuple[float, Measured], ...]]]
    """Results by load (users or rate), for `now` and `tuned`."""
    uneditable: Internal[UneditableFileError | None] = None
    """Why a file cannot be edited; there are no changes then."""

    @property
    def now(self) -> Measured:
        """What the files have now."""
        return self.result(self.plan.search.space.start)

    @property
    def tuned(self) -> Measured:
        """The chosen combination."""
        return self.result(self.best)

    @property
    def meets(self) -> bool:
        """Whether the chosen combination stays within the limits of the objective."""
        return self.plan.search.meets(self.runs, self.best)

    def result(self, choice: Choice) -> Measured:
        """Return the mean of all runs of a combination."""
        results = [run.found for run in of(self.runs, choice)]
        return average(results) if all(result.usable for result in results) else results[-1]

    def diff(self) -> str:
        """Return the unified diff of all files."""
        return "".join(change.diff() for change in self.changes)

    def chart(self) -> str:
        """Return an SVG document: p99 by throughput, of both curves and of all runs."""
        curves = [
            Curve(name, [(figures.answered_per_s, figures.p99_ms) for _, figures in points if figures.usable])
            for name, points in self.curves.items()
        ]
        dots = [(run.found.answered_per_s, run.found.p99_ms) for run in self.runs if run.found.usable]
        title = f"{self.plan.target.model}: {self.plan.options.objective.describe()}"
        return draw_curves(title, curves, dots)

    @model_serializer
    def _document(self) -> TuningDocument:
        plan, space = self.plan, self.plan.search.space
        return TuningDocument(
            model=plan.target.model,
            objective=plan.options.objective.describe(),
            grid=space.size,
            most_runs=plan.search.most_runs,
            seconds=round(plan.seconds, 1),
            server=plan.serving.installation.kind,
            cores=plan.serving.cores,
            runs=[
                MeasuredSettings(**vars(run.found), settings=space.values(run.choice)) for run in self.runs
            ],
            now=MeasuredSettings(**vars(self.now), settings=space.values(space.start)),
            tuned=MeasuredSettings(**vars(self.tuned), settings=space.values(self.best)),
            meets=self.meets,
            curves={
                name: [MeasuredLoad(**vars(figures), load=load) for load, figures in points]
                for name, points in self.curves.items()
            },
            skipped=plan.skipped,
            diff=self.diff(),
            uneditable=message_of(self.uneditable),
        )


@dataclass(frozen=True)
class EndedSearch:
    """The folder of a search that has ended."""

    folder: Path
    removed: bool
    """False while another search runs; a later search removes the folder."""


def tune(session: Session, plan: TunePlan, *, curve: bool = True) -> Tuning:
    """Search, and choose the best combination; `end_search` removes what the search has written.

    Raise UntunableError if the files as they are cannot be measured, and SearchRunningError while another
    search runs in the project.
    """
    with only_search(session.project):
        runs = search(session, plan)
        if not runs[0].found.usable:
            raise UntunableError(
                f"{plan.target.model!r} answers nothing with its present settings: {runs[0].found.violation}",
                remedy=f"run `tritonstack dev {plan.target.model}` to see the full error",
            )
        best = plan.search.best(runs)
        curves = _curves(session, plan, best) if curve else {}
    changes: tuple[FileChange, ...] = ()
    uneditable = None
    try:
        changes = tuple(changes_of(session, plan, best))
    except UneditableFileError as error:
        uneditable = error
    return Tuning(plan, tuple(runs), best, changes, curves, uneditable)


def end_search(session: Session, plan: TunePlan) -> EndedSearch:
    """Remove the builds and runs of a search whose result is not needed again, unless another search runs."""
    with suppress(SearchRunningError), only_search(session.project):
        shutil.rmtree(plan.folder, ignore_errors=True)
    return EndedSearch(plan.folder, removed=not plan.folder.exists())


def search(session: Session, plan: TunePlan) -> list[TunedRun]:
    """Measure one combination after the other; earlier runs of the same search count. Keep its folder.

    End after the first run if that is not usable.
    """
    runs = plan.record.read(session.reporter.note)
    if runs:
        session.reporter.note(f"resumed after {len(runs)} runs")
    while (following := plan.search.next_run(runs)) is not None:
        with session.reporter.step(
            f"run {len(runs) + 1} of at most {plan.search.most_runs} ({following.purpose}): "
            f"{describe(plan, following.choice)}"
        ) as step:
            is_whole = following.purpose in ("start", "finalist")
            figures = measure_choice(plan, following.choice, runs, is_whole=is_whole)
            step.detail = (
                figures.violation or f"{figures.answered_per_s:.1f} per second, p99 {figures.p99_ms:.1f} ms"
            )
        runs.append(TunedRun(following.choice, figures))
        if not runs[0].found.usable:
            break
        plan.record.append(runs[-1])
    return runs


def write_changes(session: Session, tuning: Tuning) -> None:
    """Write the proposed files; restore all of them if the project is then invalid.

    Raise UneditableFileError if the form of a file prevents its change.
    """
    if tuning.uneditable is not None:
        raise tuning.uneditable
    root = session.project.root
    try:
        for change in tuning.changes:
            write_text_atomically(root / change.name, change.after)
        load_models(session.project, tuning.plan.target.model)
        if tuning.plan.target.workspace is not None:
            load_workspace(session.project, tuning.plan.target.workspace.spec.name)
    except BaseException:
        for change in tuning.changes:
            write_text_atomically(root / change.name, change.before)
        raise


def describe(plan: TunePlan, choice: Choice) -> str:
    """Return the values of a combination that differ from the files; `as it is` if none does."""
    changed = [
        f"{setting.dimension.name} {value}"
        for (setting, value), start, place in zip(
            plan.values(choice), plan.search.space.start, choice, strict=True
        )
        if place != start
    ]
    return ", ".join(changed) or "as it is"


def measure_choice(plan: TunePlan, choice: Choice, runs: Sequence[TunedRun], *, is_whole: bool) -> Measured:
    """Build, serve, and measure one combination; what cannot be served has a violation."""
    values = plan.values(choice)
    objective = plan.options.objective
    gains = [objective.gain(run.found) for run in runs if objective.meets(run.found)]
    best = max(gains, default=None)
    try:
        form = _form(plan, values)
        members = parts(form.repository, plan.target.model, plan.models)
        with plan.serving.served(form, members, values) as server:
            return measure(
                server,
                plan.load,
                is_hopeless=None if is_whole else lambda figures: is_far_below(objective.gain(figures), best),
            )
    except BuildInterruptedError:
        raise
    except TritonstackError as error:  # this combination cannot be built or served; others can
        return serving_failure(error)


def _form(plan: TunePlan, values: Sequence[tuple[Setting, Any]]) -> Form:
    sized = any(setting.field == "batch_tokens" and value != BATCH_TOKENS for setting, value in values)
    return plan.builder.form(_built(values), sized=sized)


def _built(values: Sequence[tuple[Setting, Any]]) -> BuiltValues:
    """Return the values that need a build of their own."""
    return tuple(
        (setting, value)
        for setting, value in values
        if setting.is_built and value != setting.dimension.values[setting.dimension.start]
    )


def _curves(session: Session, plan: TunePlan, best: Choice) -> dict[str, tuple[tuple[float, Measured], ...]]:
    """Measure the files as they are and the chosen combination under several loads."""
    loads = list(_level_loads(plan.load))
    curves = {}
    for name, choice in {"now": plan.search.space.start, "tuned": best}.items():
        if name == "tuned" and choice == plan.search.space.start:
            continue
        values = plan.values(choice)
        with session.reporter.step(f"curve of {name}: {describe(plan, choice)}"):
            form = _form(plan, values)
            members = parts(form.repository, plan.target.model, plan.models)
            with plan.serving.served(form, members, values) as server:
                results = measure_levels(server, [load for _, load in loads])
        curves[name] = tuple((level, figures) for (level, _), figures in zip(loads, results, strict=True))
    return curves


def _level_loads(load: Load) -> Iterator[tuple[float, Load]]:
    seconds = max(1.0, load.seconds / 3)
    levels = dict.fromkeys(
        load.rate * share if load.rate is not None else float(max(1, round(load.users * share)))
        for share in _LEVELS
    )
    for level in levels:
        rate = level if load.rate is not None else None
        yield level, Load(int(max(1.0, level)), rate, seconds, load.requests, load.seed)


def changes_of(session: Session, plan: TunePlan, best: Choice) -> Iterator[FileChange]:
    """Yield the files that a combination changes.

    Raise UneditableFileError if the form of a file prevents its change.
    """
    start = plan.search.space.start
    changed = [pair for pair, now, place in zip(plan.values(best), start, best, strict=True) if now != place]
    for name, document in plan.models.items():
        own = [(setting, value) for setting, value in changed if setting.model == name]
        if own:
            before = after = read_text(document.file)
            for setting, value in own:
                after = setting.edit(after, value, file=document.file)
            yield FileChange(document.file.relative_to(session.project.root).as_posix(), before, after)
    workspace = plan.target.workspace
    for setting, value in changed:
        if workspace is not None and not setting.model:
            file = workspace.environment.file
            before = read_text(file)
            path = ("endpoints", plan.target.endpoint, "environment", setting.field)
            after = set_value(before, path, str(value), file=file)
            yield FileChange(file.relative_to(session.project.root).as_posix(), before, after)
