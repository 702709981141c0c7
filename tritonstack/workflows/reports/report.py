"""Report on a project: collect the data, and render it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tritonstack.base.documents import closest
from tritonstack.base.errors import UsageError
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.locks.histories import (
    HistoryEntry,
    history_from_events,
    history_from_locks,
    history_of,
)
from tritonstack.operations.locks.versions import lock_history
from tritonstack.project.loading import environment_names, model_names
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.output_files import write_output
from tritonstack.workflows.reports.environments import describe_environment, load_reported
from tritonstack.workflows.reports.live_state import (
    ChangeReader,
    LiveState,
    read_gates,
    read_live_state,
    with_live_state,
)
from tritonstack.workflows.reports.models import describe_model
from tritonstack.workflows.reports.page.document import render
from tritonstack.workflows.reports.report_data import (
    MissingData,
    ReportData,
    ReportedEnvironment,
    ReportedModel,
    TimelineEntry,
)
from tritonstack.workflows.session import Session

_AT_ONCE = 4
_OFFLINE = "not read: the report is offline"
_MOST_ENTRIES = 400


@dataclass(frozen=True)
class ReportOptions:
    """What a report covers."""

    environments: Sequence[str] = ()
    """All permanent ones by default."""
    offline: bool = False
    """Read files and git only."""
    changes: bool = True
    """Compare with what is deployed, which synthesizes the stacks."""


@dataclass(frozen=True)
class WrittenReport:
    """A report on disk."""

    file: Path
    size_bytes: int
    data: ReportData

    def to_json(self) -> dict[str, Any]:
        """Return the report's file and a summary as JSON data."""
        return {"file": str(self.file), "bytes": self.size_bytes, "report": self.data.to_json()}


def report(session: Session, file: Path, options: ReportOptions | None = None) -> WrittenReport:
    """Write a report on the project to an HTML file. Unreachable environments are named in it."""
    data = collect(session, options or ReportOptions())
    content = render(data).encode()
    write_output(file, content)
    return WrittenReport(file, len(content), data)


def default_file(session: Session) -> Path:
    """Return where a report goes if no file is named: a folder that git ignores."""
    session.project.state_dir.mkdir(parents=True, exist_ok=True)
    return session.project.state_dir / "report.html"


def collect(session: Session, options: ReportOptions, reader: ChangeReader | None = None) -> ReportData:
    """Collect what a report shows; `reader` knows changes that were read before."""
    reader = (reader or ChangeReader()) if options.changes else None
    names = _environments(session, options.environments)
    loaded = {name: load_reported(session, name) for name in names}
    workspaces = {name: one for name, one in loaded.items() if isinstance(one, Workspace)}
    missing: list[MissingData] = []
    live = _live_states(session, workspaces, options, missing)
    environments = []
    for name, one in loaded.items():
        if isinstance(one, ReportedEnvironment):
            environments.append(one)
            missing.append(
                MissingData(f"environment {name}", "its files are invalid", "run `tritonstack validate`")
            )
            continue
        reported = describe_environment(one, _source(session, one))
        environments.append(_completed(session, one, reported, live, reader, missing))
    models = _models(session, workspaces, live, missing)
    return ReportData(
        project=session.project.root.resolve().name,
        at=datetime.now(UTC),
        version=version("tritonstack"),
        commit=Checkout(session.project.root).head(),
        environments=tuple(environments),
        models=models,
        timeline=tuple(_timeline(session, names, models, live, missing)),
        missing=tuple(dict.fromkeys(missing)),
    )


def _environments(session: Session, asked: Sequence[str]) -> list[str]:
    known = environment_names(session.project)
    for name in asked:
        if name not in known:
            suggestion = closest(name, known)
            raise UsageError(
                f"unknown environment {name!r}",
                remedy=f"did you mean '{suggestion}'?" if suggestion else f"available: {', '.join(known)}",
                code="TS903",
            )
    return [name for name in known if not asked or name in asked]


def _live_states(
    session: Session,
    workspaces: Mapping[str, Workspace],
    options: ReportOptions,
    missing: list[MissingData],
) -> dict[str, LiveState]:
    if options.offline:
        missing += [
            MissingData(f"deployed state of {name}", _OFFLINE, "omit --offline") for name in workspaces
        ]
        return {}
    with session.reporter.step("reading the current state"), ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda one: read_live_state(session, one), workspaces.values()))
    for state in found:
        missing += state.missing
    return dict(zip(workspaces, found, strict=True))


def _source(session: Session, workspace: Workspace) -> Workspace | None:
    """Return the environment that artifacts are promoted from, if its files are valid."""
    promotion = workspace.spec.promotion
    source = load_reported(session, promotion.source) if promotion else None
    return source if isinstance(source, Workspace) else None


def _completed(
    session: Session,
    workspace: Workspace,
    reported: ReportedEnvironment,
    states: Mapping[str, LiveState],
    reader: ChangeReader | None,
    missing: list[MissingData],
) -> ReportedEnvironment:
    """Add what the environment's cloud tells."""
    live = states.get(reported.name)
    if live is None or live.status is None:
        gates = reported.gates and replace(reported.gates, reason="the environment was not read")
        return replace(reported, gates=gates)
    reported = with_live_state(reported, workspace, live)
    source = states.get(reported.gates.source) if reported.gates else None
    gates, gaps = read_gates(session, reported, source)
    missing += gaps
    changes = None
    if reader is not None:
        changes, gaps = reader.read(session, workspace, live.status)
        missing += gaps
    return replace(reported, gates=gates, changes=changes)


def _models(
    session: Session,
    workspaces: Mapping[str, Workspace],
    live: Mapping[str, LiveState],
    missing: list[MissingData],
) -> tuple[ReportedModel, ...]:
    known = [(workspaces[name], state) for name, state in live.items()]
    served = {model for one in workspaces.values() for model in one.models}
    found = []
    for name in model_names(session.project):
        if workspaces and name not in served:
            continue
        model, gaps = describe_model(session, name, known)
        missing += gaps
        found.append(model)
    return tuple(found)


def _timeline(
    session: Session,
    names: Sequence[str],
    models: Sequence[ReportedModel],
    live: Mapping[str, LiveState],
    missing: list[MissingData],
) -> list[TimelineEntry]:
    """Return what happened to the artifacts of the models, latest first."""
    locks = {name: lock_history(session.project, name) for name in names}
    for name, lock in locks.items():
        if lock.gap:
            missing.append(MissingData(f"history of {name} in git", lock.gap))
    entries = []
    for model in models:
        found: list[HistoryEntry] = []
        for name, lock in locks.items():
            found += history_from_locks(name, model.name, lock.versions)
        for state in live.values():
            found += history_from_events(model.name, state.events)
        for artifact in history_of(found):
            entries += [_entry(model.name, one) for one in artifact.entries]
    return sorted(entries, key=lambda one: one.at, reverse=True)[:_MOST_ENTRIES]


def _entry(model: str, one: HistoryEntry) -> TimelineEntry:
    return TimelineEntry(one.at, one.kind, one.environment, model, one.digest, one.by, one.commit, one.note)
