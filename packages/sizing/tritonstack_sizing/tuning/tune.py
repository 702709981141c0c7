"""Search the settings of a model for an objective; the answer is a diff of the project's files."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import write_text_atomically
from tritonstack.base.results import Internal, Rounded, Shown
from tritonstack.base.yaml import read_text
from tritonstack.files.loading import load_models, load_workspace
from tritonstack.files.scaffold.yaml_edits import UneditableFileError, message_of, set_value
from tritonstack.operate.build.local_build import BuildInterruptedError
from tritonstack.operate.shared.session import Session
from tritonstack.triton import TritonServer
from tritonstack_sizing.loads.charts import draw_curves
from tritonstack_sizing.tuning.planning import TunePlan, UntunableError
from tritonstack_sizing.tuning.search import TunedRun, average, of
from tritonstack_sizing.tuning.search_folders import SearchRunningError, only_search
from tritonstack_sizing.tuning.settings import BATCH_TOKENS, Setting, SkippedSetting, parts
from tritonstack_sizing.tuning.spaces import Choice, Measured
from tritonstack_sizing.tuning.variants import (
    Load,
    is_far_below,
    measure,
    measure_levels,
    serving_failure,
)

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
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(difflib.unified_diff(before, after, f"a/{self.name}", f"b/{self.name}"))


@dataclass(frozen=True, kw_only=True)
class MeasuredSettings(Measured):
    """The figures of a configuration."""

    choice: Internal[Choice]
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class MeasuredLoad(Measured):
    """The figures of a load."""

    load: float
    """Users or rate."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What a search measured, and the files that it proposes."""

    plan: Internal[TunePlan]
    model: str
    objective: str
    grid: int
    """Number of possible configurations."""
    most_runs: int
    seconds: Annotated[float, Rounded(1)]
    server: str
    cores: int
    runs: Sequence[MeasuredSettings]
    now: MeasuredSettings
    """What the files have now: the mean of all its runs."""
    tuned: MeasuredSettings
    """The chosen combination: the mean of all its runs."""
    meets: bool
    """Whether `tuned` stays within the limits of the objective."""
    curves: Mapping[str, Sequence[MeasuredLoad]]
    """Results by load, for `now` and `tuned`."""
    skipped: Sequence[SkippedSetting]
    changes: Internal[tuple[FileChange, ...]]
    diff: str
    """The unified diff of all files."""
    uneditable: Annotated[UneditableFileError | None, Shown(message_of)] = None
    """Why `--write` cannot change the files; there are no changes then."""

    def chart(self) -> str:
        """Return an SVG document: p99 by throughput, of both curves and of all runs."""

        def points(runs: Sequence[Measured]) -> list[tuple[float, float]]:
            return [(run.answered_per_s, run.p99_ms) for run in runs if run.usable]

        curves = {name: points(curve) for name, curve in self.curves.items()}
        return draw_curves(f"{self.model}: {self.objective}", curves, points(self.runs))


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
    space = plan.search.space

    def measured(choice: Choice, figures: Measured) -> MeasuredSettings:
        return MeasuredSettings(**vars(figures), choice=choice, settings=space.values(choice))

    return Tuning(
        plan=plan,
        model=plan.target.model,
        objective=plan.options.objective.describe(),
        grid=space.size,
        most_runs=plan.search.most_runs,
        seconds=plan.seconds,
        server=plan.serving.installation.kind,
        cores=plan.serving.cores,
        runs=tuple(measured(run.choice, run.found) for run in runs),
        now=measured(space.start, _mean(runs, space.start)),
        tuned=measured(best, _mean(runs, best)),
        meets=plan.search.meets(runs, best),
        curves=curves,
        skipped=plan.skipped,
        changes=changes,
        diff="".join(change.diff() for change in changes),
        uneditable=uneditable,
    )


def _mean(runs: Sequence[TunedRun], choice: Choice) -> Measured:
    """Return the mean of all runs of a combination."""
    results = [run.found for run in of(runs, choice)]
    return average(results) if all(result.usable for result in results) else results[-1]


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


def write_changes(session: Session, plan: TunePlan, changes: Sequence[FileChange]) -> None:
    """Write the proposed files; restore all of them if the project is then invalid."""
    root = session.project.root
    try:
        for change in changes:
            write_text_atomically(root / change.name, change.after)
        load_models(session.project, plan.target.model)
        if plan.target.workspace is not None:
            load_workspace(session.project, plan.target.workspace.spec.name)
    except BaseException:
        for change in changes:
            write_text_atomically(root / change.name, change.before)
        raise


def describe(plan: TunePlan, choice: Choice) -> str:
    """Return the values of a combination that differ from the files; `as it is` if none does."""
    changed = (f"{setting.dimension.name} {value}" for setting, value in _changed(plan, choice))
    return ", ".join(changed) or "as it is"


def _changed(plan: TunePlan, choice: Choice) -> list[tuple[Setting, Any]]:
    """Return the settings that differ from the files, with their values."""
    places = zip(plan.values(choice), choice, plan.search.space.start, strict=True)
    return [pair for pair, place, start in places if place != start]


def measure_choice(plan: TunePlan, choice: Choice, runs: Sequence[TunedRun], *, is_whole: bool) -> Measured:
    """Build, serve, and measure one combination; what cannot be served has a violation."""
    objective = plan.options.objective
    gains = [objective.gain(run.found) for run in runs if objective.meets(run.found)]
    best = max(gains, default=None)
    try:
        with _served(plan, choice) as server:
            return measure(
                server,
                plan.load,
                is_hopeless=None if is_whole else lambda figures: is_far_below(objective.gain(figures), best),
            )
    except BuildInterruptedError:
        raise
    except TritonstackError as error:  # this combination cannot be built or served; others can
        return serving_failure(error)


def _served(plan: TunePlan, choice: Choice) -> AbstractContextManager[TritonServer]:
    """Build a combination, and serve it."""
    values = plan.values(choice)
    sized = any(setting.field == "batch_tokens" and value != BATCH_TOKENS for setting, value in values)
    built = tuple((setting, value) for setting, value in _changed(plan, choice) if setting.is_built)
    form = plan.builder.form(built, sized=sized)
    members = parts(form.repository, plan.target.model, plan.models)
    return plan.serving.served(form, members, values)


def _curves(session: Session, plan: TunePlan, best: Choice) -> dict[str, list[MeasuredLoad]]:
    """Measure the files as they are and the chosen combination under several loads."""
    levels = list(_level_loads(plan.load))
    curves = {}
    for name, choice in {"now": plan.search.space.start, "tuned": best}.items():
        if name == "tuned" and choice == plan.search.space.start:
            continue
        with (
            session.reporter.step(f"curve of {name}: {describe(plan, choice)}"),
            _served(plan, choice) as server,
        ):
            results = measure_levels(server, [load for _, load in levels])
        pairs = zip(levels, results, strict=True)
        curves[name] = [MeasuredLoad(**vars(figures), load=level) for (level, _), figures in pairs]
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
    changed = _changed(plan, best)
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
