"""`tritonstack status`: show the state of environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.status_text import status_lines
from tritonstack.workflows.environments.expiring import ExpiringEnvironments, expiry_text
from tritonstack.workflows.environments.status import Statuses
from tritonstack.workflows.environments.status import status as run


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
    found = run(state, environments or (), instance=name)
    texts = ["\n".join(status_lines(one)) for one in found.environments] or ["no environments"]
    if found.expiring is not None:
        texts += ["\n".join(lines)] if (lines := list(_expiring_lines(found, found.expiring))) else []
    state.output.result(found.to_json(), text="\n\n".join(texts))


def _expiring_lines(found: Statuses, expiring: ExpiringEnvironments) -> Iterator[str]:
    """Render expiring environments; skip locations whose failure an environment shows above."""
    shown = {(one.account, one.region) for one in found.environments if one.error}
    if expiring.cases:
        yield "expiring (details: `tritonstack status <template> --name <name>`):"
        yield from (f"  {expiry_text(case.state)}" for case in expiring.cases)
    for location, reason in found.not_searched.items():
        if (location.account, location.region) not in shown:
            yield f"expiring environments in {location.account} {location.region} are unknown: {reason}"
