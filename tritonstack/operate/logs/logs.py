"""Read and follow the logs of an environment's endpoints, or of a model's latest build."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError, NotApplicableError, NotDeployedError
from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.tags import moment_text, parse_lifetime, parse_moment
from tritonstack.files.project.build_machines import CodeBuildMachine, ProcessingMachine, list_build_machines
from tritonstack.files.project.names import require_known
from tritonstack.operate.jobs.jobs import JobState, event_text, parse_event
from tritonstack.operate.logs.reading import (
    LATEST,
    LogCursor,
    LoggedBuild,
    LogLine,
    LogSource,
    MergedLog,
    follow_log,
    latest_build,
)
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.running import endpoint_condition
from tritonstack.operate.shared.session import Session

_DEFAULT_SINCE = "1h"
_LONGEST_FILTER = 1000
"""CloudWatch Logs accepts filter patterns of 1,024 characters."""


@dataclass(frozen=True)
class LogQuery:
    """Which lines to read."""

    endpoint: str | None = None
    """An endpoint of the environment file; None for all."""
    build: str | None = None
    """A model: read the log of its latest build instead."""
    since: str | None = None
    """A duration before now, or a time in UTC; by default the last hour, or the whole build."""
    contains: str | None = None
    """Read only lines that contain this text."""
    variant: str | None = None
    machine: str | None = None
    """The id of an instance, or the start of it."""


@dataclass(frozen=True)
class Logs:
    """The lines that exist now, in order of time."""

    lines: tuple[LogLine, ...]
    notes: tuple[str, ...] = ()
    """Why sources have no lines, and how a build ended."""


def readable(line: LogLine) -> str:
    """Return the message of a line; progress events of builds as text."""
    event = parse_event(line.message)
    return (event_text(event) if event else "") or line.message


def logs(session: Session, environment: str, query: LogQuery, *, instance: str | None = None) -> Logs:
    """Return the lines of a query that exist now; raise an error if nothing was deployed or built."""
    with session.reporter.step(f"reading logs of {environment}"):
        reading = _open(session, environment, query, instance)
        lines = tuple(reading.log.poll())
        notes = tuple(_build_notes(reading) if reading.build else _silence_notes(reading, query, lines))
    return Logs(lines, notes)


def follow_logs(
    session: Session,
    environment: str,
    query: LogQuery,
    *,
    instance: str | None = None,
    on_lines: Callable[[Sequence[LogLine]], None],
) -> Logs:
    """Report the lines of a query as they arrive, until interrupted; those of a build until it has ended.

    Waits for an endpoint that is not deployed yet, or that has no log yet. The result has no lines, and a
    note on the build.
    """
    with session.reporter.step(f"reading logs of {environment}"):
        reading = _open(session, environment, query, instance)
        lines = reading.log.poll()
    on_lines(lines)
    for cursor in reading.log.cursors:
        if not cursor.group_exists:
            session.reporter.note(f"{cursor.source.name}: waiting for its log {cursor.source.group}")
    follow_log(reading.log, on_lines=on_lines, ended=reading.has_ended)
    return Logs((), tuple(_build_notes(reading)))


@dataclass(frozen=True)
class _Reading:
    cloud: Cloud
    spec: EnvironmentSpec
    begin: datetime
    log: MergedLog
    new_cursor: Callable[[LogSource], LogCursor]
    build: LoggedBuild | None = None

    def has_ended(self) -> bool:
        """Return whether the build has ended; read its log once it has one. Endpoints do not end."""
        if self.build is None:
            return False
        state = self.build.read_state()
        if not self.log.cursors:
            self.log.cursors += map(self.new_cursor, _build_sources(self.build.model, state))
        return state.status != "running"


def _open(session: Session, environment: str, query: LogQuery, instance: str | None) -> _Reading:
    _check(query)
    begin = _begin(query.since or _DEFAULT_SINCE, datetime.now(UTC))
    workspace = session.workspace(environment, instance)
    spec, build = workspace.spec, None
    if query.build is not None:
        require_known(query.build, workspace.models, "the project has no model")
        _require_account_builds(spec)
        cloud = session.cloud(spec)
        build = _latest_build(cloud, spec, query.build)
        sources = _build_sources(query.build, build.state)
        begin = begin if query.since else build.started
    else:
        sources = _endpoint_sources(spec, query)
        cloud = session.cloud(spec)

    def new_cursor(source: LogSource) -> LogCursor:
        since_ms = int(begin.timestamp() * 1000)
        return LogCursor(cloud, source, since_ms=since_ms, contains=query.contains or "")

    log = MergedLog([new_cursor(source) for source in sources])
    return _Reading(cloud, spec, begin, log, new_cursor, build)


def _check(query: LogQuery) -> None:
    if query.build is not None and (query.endpoint or query.variant or query.machine):
        raise CommandLineError(
            "--build selects the log of a build, which has no endpoint, variant, or instance",
            remedy="omit --build, or the endpoint, --variant, and --instance",
        )
    if query.contains is not None and not 0 < len(query.contains) <= _LONGEST_FILTER:
        raise CommandLineError(
            f"expected 1 to {_LONGEST_FILTER} characters in --filter, got {len(query.contains)}",
            remedy='write a text that the lines contain, such as --filter "failed to load"',
        )


def _begin(text: str, now: datetime) -> datetime:
    try:
        return now - parse_lifetime(text)
    except ValueError:
        pass
    try:
        return parse_moment(text)
    except UsageError:
        raise CommandLineError(
            f"invalid value of --since: {text!r}",
            remedy="write a duration such as 30m, 4h, or 1d12h, or a UTC time such as 2026-11-22T08:30:00Z",
        ) from None


def _endpoint_sources(spec: EnvironmentSpec, query: LogQuery) -> list[LogSource]:
    if query.endpoint is not None:
        require_known(query.endpoint, spec.endpoints, f"environment {spec.name!r} has no endpoint")
    names = [query.endpoint] if query.endpoint else list(spec.endpoints)
    if query.variant is not None:
        variants = {variant.name for name in names for variant in spec.endpoints[name].variants}
        owner = f"the endpoint {query.endpoint!r}" if query.endpoint else f"environment {spec.name!r}"
        require_known(query.variant, sorted(variants), f"{owner} has no variant")
    prefix = f"{query.variant}/" if query.variant else ""
    return [LogSource(name, _log_group(spec, name), prefix, query.machine or "") for name in names]


def _log_group(spec: EnvironmentSpec, name: str) -> str:
    full = spec.endpoint_name(name)
    if spec.endpoints[name].components is None:
        return naming.endpoint_log_group(full)
    return naming.component_log_group(naming.component_name(full))


def _require_account_builds(spec: EnvironmentSpec) -> None:
    if not spec.builds_in_account:
        raise NotApplicableError(
            f"builds of the environment {spec.name!r} run on the machine that starts them",
            remedy=f"run `tritonstack build {spec.name}`, which prints their log",
        )


def _latest_build(cloud: Cloud, spec: EnvironmentSpec, model: str) -> LoggedBuild:
    machines = list_build_machines(spec)
    build = latest_build(
        cloud,
        spec.base,
        model,
        projects=[machine.project for machine in machines if isinstance(machine, CodeBuildMachine)],
        processing=any(isinstance(machine, ProcessingMachine) for machine in machines),
    )
    if build is None:
        raise TritonstackError(
            f"no build of {model!r} in account {cloud.account}, region {cloud.region}, among the latest "
            f"{LATEST} of each machine type",
            remedy=f"run `tritonstack build {spec.name} {model}`; `tritonstack history {model}` shows where "
            "its artifacts were built",
            code=NotDeployedError.code,
        )
    return build


def _build_sources(model: str, state: JobState) -> list[LogSource]:
    """Return the log of a build; none until it has one."""
    return [LogSource(model, state.log_group, state.log_stream)] if state.log_group else []


def _build_notes(reading: _Reading) -> Iterator[str]:
    if reading.build:
        state = reading.build.read_state()
        running = f"running ({state.phase})" if state.status == "running" else state.status
        reason = f": {state.reason}" if state.reason else ""
        yield f"{reading.build.model}: build {state.id} {running}{reason}"


def _silence_notes(reading: _Reading, query: LogQuery, lines: Iterable[LogLine]) -> Iterator[str]:
    """Yield why endpoints have no lines; raise an error if none of the endpoints exists."""
    heard = {line.source for line in lines}
    silent = [cursor for cursor in reading.log.cursors if cursor.source.name not in heard]
    conditions = {
        cursor: endpoint_condition(reading.cloud, reading.spec.endpoint_name(cursor.source.name))
        for cursor in silent
    }
    if not heard and not any(conditions.values()):
        raise _not_deployed(reading, [cursor.source.name for cursor in silent])
    filtered = any((query.contains, query.variant, query.machine))
    for cursor, condition in conditions.items():
        missing = "the endpoint is not deployed" if condition is None else f"the endpoint is {condition}"
        what = f"no {'matching ' if filtered else ''}lines since {moment_text(reading.begin)}"
        reason = what if cursor.group_exists else "no log yet"
        yield f"{cursor.source.name}: {reason}; {missing}"


def _not_deployed(reading: _Reading, names: Sequence[str]) -> TritonstackError:
    environment, cloud = reading.spec.name, reading.cloud
    missing = ", ".join(names) or "no endpoint"
    return TritonstackError(
        f"not deployed in account {cloud.account}, region {cloud.region}: {missing}",
        remedy=f"run `tritonstack deploy {environment}`; if that fails, `tritonstack logs {environment} "
        "--follow` at the same time shows the log",
        code=NotDeployedError.code,
    )
