"""`tritonstack status`: show the state of environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from tritonstack.base.errors import shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.revisions import commit_commands, is_committed, short_commit
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.tables import MARKS, Column, FittedTable
from tritonstack.cli.selection import NameOption
from tritonstack.files.records.events import Event
from tritonstack.operate.destroy.reap import ExpiringEnvironments, expiry_text
from tritonstack.operate.status.status import EndpointStatus, EnvironmentStatus, Statuses
from tritonstack.operate.status.status import status as run

_MODELS_SHOWN = 3
_LONGEST_NOTE = 300
_CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
_STYLES = {"good": "green", "attention": "yellow", "bad": "red"}
_COLUMNS = (
    Column(""),
    Column("endpoint"),
    Column("status"),
    Column("models"),
    Column("instances", least_width=95),
    Column("calls", "right", least_width=90),
    Column("p99", "right", least_width=70),
    Column("errors", "right", least_width=80),
    Column("verified", least_width=75),
)
_NOT_DEPLOYED = "not deployed"
State = Literal["good", "attention", "bad"]


def summary_line(environments: Sequence[EnvironmentStatus]) -> Text:
    """Count the environments and endpoints, and those that need attention."""
    endpoints = [endpoint for environment in environments for endpoint in environment.endpoints]
    states = [endpoint_state(endpoint) for endpoint in endpoints]
    unavailable = sum(environment.error is not None for environment in environments)
    line = Text(
        f"{_counted(len(environments), 'environment')}, {_counted(len(endpoints), 'endpoint')}: ", "bold"
    )
    counts = (
        (f"{states.count('bad')} failing", states.count("bad"), "bad"),
        (f"{unavailable} unavailable", unavailable, "bad"),
        (f"{states.count('attention')} with warnings", states.count("attention"), "attention"),
        (f"{states.count('good')} healthy", states.count("good"), "good"),
    )
    shown = [Text(text, f"bold {_STYLES[state]}") for text, count, state in counts if count]
    return line.append(Text(", ").join(shown) if shown else "none")


def environment_view(environment: EnvironmentStatus, *, now: datetime) -> Iterator[RenderableType]:
    """Render one environment: its deployment, a table of its endpoints, and what is wrong with them."""
    place = f"{environment.account} {environment.region}".strip()
    head = "".join(f"  {part}" for part in (place, _deployed_text(environment)) if part)
    yield Text.assemble((environment.name, "bold"), head)
    if environment.error is not None:
        yield Text("\n".join(f"  {line}" for line in environment.error.splitlines()))
        return
    if environment.revision.files:
        yield Text(
            f"  checked out: {environment.revision.description}; {environment.revision.note}", "yellow"
        )
    if environment.endpoints:
        yield FittedTable(_COLUMNS, [_row(endpoint, now) for endpoint in environment.endpoints])
    if notes := [note for endpoint in environment.endpoints for note in _notes(endpoint)]:
        yield FittedTable((Column(""), Column(""), Column("")), notes, indent=2)


def _deployed_text(environment: EnvironmentStatus) -> str:
    if environment.error is not None:
        return "status unavailable"
    last = environment.deployed
    if last is None:
        return "never deployed (no record)"
    commit = f"from {short_commit(last.commit)} " if last.commit else ""
    return f"deployed {commit}by {last.by}, {_moment(last)}"


def _row(endpoint: EndpointStatus, now: datetime) -> list[str | Text]:
    state, traffic = endpoint_state(endpoint), endpoint.traffic
    is_deployed = endpoint.status != _NOT_DEPLOYED
    return [
        MARKS[state],
        Text(endpoint.name, "bold"),
        Text(endpoint.status, _STYLES[_status_state(endpoint)]),
        "\n".join(_served(endpoint)),
        "\n".join(
            f"{machines.variant} {machines.now} ({machines.least}–{machines.most})"
            for machines in endpoint.machines
        ),
        f"{traffic.requests:,}" if is_deployed else "",
        "" if traffic.p99_ms is None else f"{traffic.p99_ms:.0f} ms",
        f"{traffic.server_errors + traffic.client_errors:,}" if is_deployed else "",
        _verdict(endpoint.verdict, now)
        if endpoint.verdict
        else Text("not yet" if is_deployed else "", "yellow"),
    ]


def _status_state(endpoint: EndpointStatus) -> State:
    if endpoint.status == "InService":
        return "good"
    return "attention" if endpoint.status in (_NOT_DEPLOYED, *_CHANGING) else "bad"


def endpoint_state(endpoint: EndpointStatus) -> State:
    """Return the worst of an endpoint's status and its issues."""
    states = [_status_state(endpoint), *(state for state, *_ in _issues(endpoint))]
    return "bad" if "bad" in states else "attention" if "attention" in states else "good"


def _served(endpoint: EndpointStatus) -> Iterator[str]:
    for served in endpoint.models[:_MODELS_SHOWN]:
        mark = "" if served.live == served.locked else " ≠ lock"
        mark += " (unverified)" if served.unverified else ""
        yield f"{served.model} {short_digest(served.live) if served.live else 'missing'}{mark}"
    if len(endpoint.models) > _MODELS_SHOWN:
        live = sum(served.live is not None for served in endpoint.models)
        yield f"… {live} of {len(endpoint.models)} present"


def _issues(endpoint: EndpointStatus) -> Iterator[tuple[State, str, str]]:
    """Yield what is wrong with an endpoint: severity, kind, and description; the most severe first."""
    yield from (("bad", "alarm", f"{name} is in ALARM") for name in endpoint.firing_alarms)
    if endpoint.traffic.server_errors:
        yield (
            "bad",
            "errors",
            f"{endpoint.traffic.server_errors:,} requests failed in the last 15 minutes (5XX)",
        )
    if endpoint.verdict is not None and endpoint.verdict.kind == "refuted":
        note = endpoint.verdict.note
        yield (
            "bad",
            "failed verification",
            note if len(note) <= _LONGEST_NOTE else f"{note[:_LONGEST_NOTE]}…",
        )
    yield from (("bad", "not as deployed", failure) for failure in endpoint.drift)
    yield from (("attention", "to deploy", change) for change in endpoint.to_deploy)
    for served in endpoint.models:
        if served.unverified:
            yield "attention", "unverified", f"{served.model}: {served.unverified}"


def _notes(endpoint: EndpointStatus) -> Iterator[tuple[Text | str, ...]]:
    for state, kind, text in _issues(endpoint):
        yield Text(endpoint.name, "bold"), Text(kind, _STYLES[state]), text


def _verdict(event: Event, now: datetime) -> Text:
    failed = event.kind == "refuted"
    note = ", uncommitted" if event.commit and not is_committed(event.commit) else ""
    age = _age(now - datetime.fromisoformat(event.at))
    return Text(f"{'failed' if failed else 'passed'} {age}{note}", "red" if failed else "")


def _age(passed: timedelta) -> str:
    minutes = int(passed.total_seconds()) // 60
    if minutes < 1:
        return "just now"
    if minutes < 120:
        return f"{minutes} min ago"
    hours = minutes // 60
    return f"{hours} h ago" if hours < 48 else f"{hours // 24} days ago"


def _moment(event: Event) -> str:
    return f"{event.at[:10]} {event.at[11:16]}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_MOST_NAMED = 3
"""Files that a suggested command names."""


def status(
    context: typer.Context,
    environments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Environments (default: all permanent ones).", autocompletion=complete_deployable
        ),
    ] = None,
    name: NameOption = None,
) -> None:
    """Show each environment: deployed commit, models, instances, traffic, alarms, and drift.

    Lists template instances and their expiry below. Traffic covers the last 15 minutes. An unreachable
    environment is listed with the reason and does not stop the others. Nothing is synthesized: `tritonstack
    diff` shows the exact changes of a deployment, and `tritonstack verify` checks the running endpoints.

    Example: tritonstack status dev prod
    """
    state: Context = context.obj
    statuses = run(state, environments or (), instance=name)
    state.output.result(statuses, text=Group(*_view(statuses)))
    selected = f"{(environments or [''])[0]} --name {name}" if name else ""
    state.output.suggest(*_following(statuses, selected, state.project.root))


def _following(statuses: Statuses, selected: str, root: Path) -> list[str]:
    """Return the commands for the first environment that needs some; `selected` names an instance."""
    for environment in statuses.environments:
        states = {endpoint_state(endpoint) for endpoint in environment.endpoints}
        if "bad" in states:
            return [f"tritonstack verify {selected or environment.name}"]
        if "attention" in states:
            return _to_change(environment, selected or environment.name, root)
    return []


def _to_change(environment: EnvironmentStatus, arguments: str, root: Path) -> list[str]:
    changing = [endpoint for endpoint in environment.endpoints if endpoint.to_deploy]
    if not changing or not all(endpoint.lacks_only_commit for endpoint in changing):
        return [f"tritonstack diff {arguments}"]
    # `diff` may show no change: a deploy from a commit then only records it.
    deploy = f"tritonstack deploy {arguments}"
    commit, files = environment.revision.commit, environment.revision.files
    if commit and not files:
        return [deploy]
    is_short = commit and len(files) <= _MOST_NAMED
    added = [shown_path(root / file) for file in files] if is_short else ["--all"]
    return [*commit_commands(commit, added), deploy]


def _view(statuses: Statuses) -> Iterator[RenderableType]:
    yield summary_line(statuses.environments)
    for environment in statuses.environments:
        yield ""
        yield from environment_view(environment, now=datetime.now(UTC))
    if statuses.expiring is not None and (lines := list(_expiring_lines(statuses, statuses.expiring))):
        yield Text("\n".join(["", *lines]))


def _expiring_lines(statuses: Statuses, expiring: ExpiringEnvironments) -> Iterator[str]:
    """Render expiring environments; skip locations whose failure an environment shows above."""
    shown = {
        (environment.account, environment.region)
        for environment in statuses.environments
        if environment.error
    }
    if expiring.cases:
        yield "expiring (details: `tritonstack status <template> --name <name>`):"
        yield from (f"  {expiry_text(case.state)}" for case in expiring.cases)
    for location, reason in statuses.not_searched.items():
        if (location.account, location.region) not in shown:
            yield f"expiring environments in {location.account} {location.region} are unknown: {reason}"
