"""`tritonstack status`: show the state of environments."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from tritonstack.base.errors import shown_path
from tritonstack.base.revisions import commit_commands
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.status_text import endpoint_state, environment_view, summary_line
from tritonstack.cli.selection import NameOption
from tritonstack.operate.destroy.expiring import ExpiringEnvironments, expiry_text
from tritonstack.operate.status.status import EnvironmentStatus, Statuses
from tritonstack.operate.status.status import status as run

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
