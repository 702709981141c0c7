"""Render the status of environments: one table per environment, and its problems below."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from tritonstack.base.files import short_digest
from tritonstack.base.revisions import is_committed, short_commit
from tritonstack.records.events import Event
from tritonstack.workflows.environments.status import EndpointStatus, EnvironmentStatus

WIDTH = 100
_MODELS_SHOWN = 3
_LONGEST_NOTE = 300


def status_lines(environment: EnvironmentStatus) -> Iterator[str]:
    """Render one environment."""
    location = f"{environment.account} {environment.region}".strip()
    yield "  ".join(filter(None, (environment.name, location, _deployed_text(environment))))
    if environment.error is not None:
        yield from (f"  {line}" for line in environment.error.splitlines())
        return
    if environment.revision.files:
        yield f"  checked out: {environment.revision.description}; {environment.revision.note}"
    if environment.endpoints:
        yield from (f"  {line}" for line in _table(environment))
    for endpoint in environment.endpoints:
        yield from (f"  {endpoint.name}: {note}" for note in _issues(endpoint))


def _deployed_text(environment: EnvironmentStatus) -> str:
    if environment.error is not None:
        return "status unavailable"
    last = environment.deployed
    if last is None:
        return "never deployed (no record)"
    commit = f"from {short_commit(last.commit)} " if last.commit else ""
    return f"deployed {commit}by {last.by}, {_moment(last)}"


def _table(environment: EnvironmentStatus) -> list[str]:
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for title in ("endpoint", "status", "serves", "machines"):
        table.add_column(title, overflow="fold")
    table.add_column("calls", justify="right")
    table.add_column("p99", justify="right")
    table.add_column("errors", justify="right")
    table.add_column("verdict", overflow="fold")
    for endpoint in environment.endpoints:
        traffic = endpoint.traffic
        p99 = "–" if traffic.p99_ms is None else f"{traffic.p99_ms:.0f} ms"
        table.add_row(
            endpoint.name,
            endpoint.status,
            "\n".join(_served(endpoint)),
            "\n".join(f"{one.variant} {one.now} ({one.least}–{one.most})" for one in endpoint.machines),
            f"{traffic.requests:,}",
            p99,
            f"{traffic.server_errors + traffic.client_errors:,}",
            _verdict(endpoint.verdict) if endpoint.verdict else "none yet",
        )
    text = io.StringIO()
    Console(file=text, width=WIDTH - 2, color_system=None).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]


def _served(endpoint: EndpointStatus) -> Iterator[str]:
    for served in endpoint.models[:_MODELS_SHOWN]:
        mark = "" if served.live == served.locked else " ≠ lock"
        mark += " (unverified)" if served.unverified else ""
        yield f"{served.model} {short_digest(served.live) if served.live else 'missing'}{mark}"
    if len(endpoint.models) > _MODELS_SHOWN:
        live = sum(served.live is not None for served in endpoint.models)
        yield f"… {live} of {len(endpoint.models)} present"


def _issues(endpoint: EndpointStatus) -> Iterator[str]:
    yield from (f"{name} is in ALARM" for name in endpoint.ringing)
    if endpoint.traffic.server_errors:
        yield f"{endpoint.traffic.server_errors:,} requests failed in the last 15 minutes (5XX)"
    yield from (
        f"{served.model} is unverified: {served.unverified}"
        for served in endpoint.models
        if served.unverified
    )
    yield from (f"not as deployed: {failure}" for failure in endpoint.drift)
    yield from (f"to deploy: {change}" for change in endpoint.to_deploy)
    if endpoint.verdict is not None and endpoint.verdict.kind == "refuted":
        note = endpoint.verdict.note
        yield f"failed verification: {note if len(note) <= _LONGEST_NOTE else f'{note[:_LONGEST_NOTE]}…'}"


def _verdict(event: Event) -> str:
    lines = [event.kind, _moment(event)]
    if event.commit and not is_committed(event.commit):
        lines.append(short_commit(event.commit))
    return "\n".join(lines)


def _moment(event: Event) -> str:
    return f"{event.at[:10]} {event.at[11:16]}"
