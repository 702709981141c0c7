"""Report on a project: collect the data, and render it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Key
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.names import environment_names, model_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import load_lock
from tritonstack.operate.deploy.preflight import chosen_environments
from tritonstack.operate.diff.diff import DeployOutlook, diff
from tritonstack.operate.locks.versions import (
    HistoryEntry,
    LockHistory,
    history_from_events,
    history_from_locks,
    history_of,
    lock_history,
)
from tritonstack.operate.report.environments import describe_environment, load_reported
from tritonstack.operate.report.live_state import (
    LiveState,
    StageLog,
    read_gates,
    read_live_state,
    with_live_state,
)
from tritonstack.operate.report.models import describe_model
from tritonstack.operate.report.page.document import Watch, render
from tritonstack.operate.report.report_data import (
    DeployChanges,
    Gaps,
    MissingData,
    ReportData,
    ReportedEnvironment,
    ReportedModel,
    missing_data,
)
from tritonstack.operate.shared.aws import in_parallel
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.events import EventCache
from tritonstack.operate.shared.output_files import require_output, write_output
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.status import EnvironmentStatus


@dataclass
class ChangeReader:
    """Reads what a deploy would change, again only if the files or the last deployment have changed."""

    _comparisons: dict[str, tuple[object, DeployChanges | None, Gaps]] = field(default_factory=dict)

    def read(
        self, session: Session, workspace: Workspace, status: EnvironmentStatus, gaps: Gaps
    ) -> DeployChanges | None:
        """Return what a deploy of an environment would change; None if that is missing."""
        name = workspace.spec.name
        deployed = [
            (endpoint.status, endpoint.deployed and endpoint.deployed.key) for endpoint in status.endpoints
        ]
        state = (workspace.spec, workspace.lock.record, dict(workspace.hashes), deployed)
        if name not in self._comparisons or self._comparisons[name][0] != state:
            missing = Gaps()
            changes = missing.attempt(f"changes by a deploy of {name}", lambda: _changes(diff(session, name)))
            self._comparisons[name] = state, changes, missing
        _, changes, missing = self._comparisons[name]
        gaps += missing
        return changes


def _changes(outlook: DeployOutlook) -> DeployChanges:
    stacks = []
    for plan in outlook.changes.plans:
        planned = [change for change in outlook.resource_changes.get(plan.stack, ()) if not change.expected]
        taken = [change.summary for change in outlook.taken_by(plan.stack)]
        if plan.action != "nothing" or taken:
            details = (*taken, *plan.details, *(change.summary for change in planned))
            stacks.append((plan.summary, details))
    copied = [f"{name}: {', '.join(models)}" for name, models in outlook.model_prefixes.items()]
    others = (*outlook.leftover_lines, *(f"copied to the model prefix of {line}" for line in copied))
    return DeployChanges(tuple(outlook.model_lines), tuple(stacks), others, outlook.rejected)


_OFFLINE = "the report is offline"
MOST_ENTRIES = 400
"""Of the timeline."""
INTERVAL_S = 10
"""Between two reads of a report that is written again and again."""


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
    size_bytes: Annotated[int, Key("bytes")]
    data: Annotated[ReportData, Key("report")]


def report(session: Session, file: Path, options: ReportOptions | None = None) -> WrittenReport:
    """Write a report on the project to an HTML file. Unreachable environments are named in it."""
    require_output(file)
    return _write(file, collect(session, options or ReportOptions()))


def watch_report(
    session: Session,
    file: Path,
    options: ReportOptions | None = None,
    *,
    on_written: Callable[[WrittenReport], None],
) -> None:
    """Write a report every few seconds until Ctrl-C; its page reloads itself.

    If a read fails, for example while a file is edited, the page keeps the data and names the error.
    """
    require_output(file)
    options, reader, log = options or ReportOptions(), ChangeReader(), StageLog()
    cache: EventCache = {}
    written = _write(file, log.completed(collect(session, options, reader, cache)), Watch(INTERVAL_S))
    on_written(written)
    session = Session(session.project)  # its steps would fill the terminal
    try:
        while True:
            time.sleep(INTERVAL_S)
            try:
                data, error = log.completed(collect(session, options, reader, cache)), ""
            except Exception as failure:  # the page shows it, and the next read may succeed
                data, error = written.data, f"{type(failure).__name__}: {failure}"
            written = _write(file, data, Watch(INTERVAL_S, error))
    except KeyboardInterrupt:
        _write(file, written.data)  # an open page stops reloading


def _write(file: Path, data: ReportData, watch: Watch | None = None) -> WrittenReport:
    content = render(data, watch).encode()
    write_output(file, content)
    return WrittenReport(file, len(content), data)


def default_file(session: Session) -> Path:
    """Return where a report goes if no file is named: a folder that git ignores."""
    folder = session.project.own_state_dir
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "report.html"


def collect(
    session: Session,
    options: ReportOptions,
    reader: ChangeReader | None = None,
    cache: EventCache | None = None,
) -> ReportData:
    """Collect what a report shows; `reader` and `cache` know what was read before."""
    reader = (reader or ChangeReader()) if options.changes else None
    names = chosen_environments(session.project, options.environments)
    files = ProjectFiles(session.project)
    loaded = {name: load_reported(files, name) for name in names}
    workspaces = {
        name: loaded_files for name, loaded_files in loaded.items() if isinstance(loaded_files, Workspace)
    }
    missing = Gaps()
    live = _live_states(session, workspaces, options, {} if cache is None else cache, missing)
    environments = []
    for name, loaded_files in loaded.items():
        if isinstance(loaded_files, ReportedEnvironment):
            environments.append(loaded_files)
            missing.append(
                MissingData(f"environment {name}", "its files are invalid", "run `tritonstack validate`")
            )
            continue
        reported = describe_environment(loaded_files, _source(files, loaded_files))
        environments.append(_completed(session, loaded_files, reported, live, reader, missing))
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


def _live_states(
    session: Session,
    workspaces: Mapping[str, Workspace],
    options: ReportOptions,
    cache: EventCache,
    missing: Gaps,
) -> dict[str, LiveState]:
    if options.offline:
        missing += [
            MissingData(f"deployed state of {name}", _OFFLINE, "omit --offline") for name in workspaces
        ]
        return {name: LiveState(unread=_OFFLINE, events_unread=_OFFLINE) for name in workspaces}
    with session.reporter.step("reading the current state"):
        states = in_parallel(
            lambda workspace: read_live_state(session, workspace, cache), workspaces.values()
        )
    for state in states:
        missing += state.missing
    return dict(zip(workspaces, states, strict=True))


def _source(files: ProjectFiles, workspace: Workspace) -> Workspace | None:
    """Return the environment that artifacts are promoted from, if its files are valid."""
    promotion = workspace.spec.promotion
    source = load_reported(files, promotion.source) if promotion else None
    return source if isinstance(source, Workspace) else None


def _completed(
    session: Session,
    workspace: Workspace,
    reported: ReportedEnvironment,
    states: Mapping[str, LiveState],
    reader: ChangeReader | None,
    missing: Gaps,
) -> ReportedEnvironment:
    live = states[reported.name]
    if live.status is None:
        gates = reported.gates and replace(reported.gates, reason="the environment was not read")
        return replace(reported, gates=gates, unread=live.unread, rollouts=live.rollouts)
    reported = with_live_state(reported, workspace, live)
    source = states.get(reported.gates.source) if reported.gates else None
    gates = read_gates(session, reported, source, missing)
    changes = reader.read(session, workspace, live.status, missing) if reader else None
    return replace(reported, gates=gates, changes=changes)


def _models(
    session: Session, workspaces: Mapping[str, Workspace], live: Mapping[str, LiveState], missing: Gaps
) -> tuple[ReportedModel, ...]:
    read = [(workspaces[name], state) for name, state in live.items()]
    served = {model for workspace in workspaces.values() for model in workspace.models}
    # The locks of environments outside the report included.
    invalid = [
        name
        for name in environment_names(session.project)
        if missing.attempt(f"lock of {name}", partial(load_lock, session.project.lock_file(name))) is None
    ]
    return tuple(
        describe_model(session, name, read, missing, unread_environments=invalid)
        for name in model_names(session.project)
        if name in served or not workspaces
    )


def _timeline(
    session: Session,
    names: Sequence[str],
    models: Sequence[ReportedModel],
    live: Mapping[str, LiveState],
    missing: Gaps,
) -> list[tuple[str, HistoryEntry]]:
    """Return what happened to the artifacts of the models, latest first."""
    locks = _lock_histories(session, names, missing)
    entries = []
    for model in models:
        builds: list[HistoryEntry] = []
        for name, lock in locks.items():
            builds += history_from_locks(name, model.name, lock.versions)
        for state in live.values():
            builds += history_from_events(model.name, state.events)
        for artifact in history_of(builds):
            entries += [(model.name, entry) for entry in artifact.entries]
    entries.sort(key=lambda pair: pair[1].at, reverse=True)
    if len(entries) > MOST_ENTRIES:
        subject, rest = "older entries of the timeline", len(entries) - MOST_ENTRIES
        reason = f"the latest {MOST_ENTRIES} are shown, {rest} older ones are not"
        missing.append(MissingData(subject, reason, "run `tritonstack history <model>`"))
    return entries[:MOST_ENTRIES]


def _lock_histories(session: Session, names: Sequence[str], missing: Gaps) -> dict[str, LockHistory]:
    """Return the lock histories of environments; one that cannot be read is named as missing."""
    histories = {}
    for name in names:
        lock, subject = lock_history(session.project, name), f"history of {name} in git"
        try:
            gap = lock.gap
        except TritonstackError as error:
            missing.append(missing_data(subject, error))
            continue
        if gap:
            missing.append(MissingData(subject, gap))
        histories[name] = lock
    return histories
