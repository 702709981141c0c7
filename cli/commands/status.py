"""`tritonstack status`: how environments are doing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from catalog.errors import InvalidFilesError, TritonstackError, UsageError
from catalog.loading import environment_names
from cli.context import Context
from cli.selection import NameOption
from cli.status_words import status_lines
from operations.verification.status import EnvironmentStatus, environment_status

_AT_ONCE = 4


def status(
    context: typer.Context,
    environments: Annotated[
        list[str] | None, typer.Argument(help="The environments; all that stay, if none is named.")
    ] = None,
    name: NameOption = None,
) -> None:
    """Show each environment: deployed from which commit, what it serves, machines, traffic, alarms, drift.

    Traffic is that of the last 15 minutes. An environment that cannot be reached is named with the reason and
    does not stop the others. Nothing is synthesised: `tritonstack diff` tells what exactly a deploy would
    change, `tritonstack verify` proves that what runs is what is asked for.

    Example: tritonstack status dev prod
    """
    state: Context = context.obj
    if name is not None and len(environments or ()) != 1:
        raise UsageError("--name goes with one template", remedy="for example status preview --name pr-123")
    wanted = environments or environment_names(state.project)
    known = _all(state, wanted, name)
    state.output.result(
        {"environments": [one.facts() for one in known]},
        text="\n\n".join("\n".join(status_lines(one)) for one in known) or "there is no environment",
    )


def _all(state: Context, names: Sequence[str], instance: str | None) -> list[EnvironmentStatus]:
    now = datetime.now(UTC)
    with state.output.step("looking at what runs"), ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda name: _one(state, name, instance, now=now), names))


def _one(state: Context, name: str, instance: str | None, *, now: datetime) -> EnvironmentStatus:
    try:
        workspace = state.workspace(name, instance)
    except TritonstackError as error:
        if isinstance(error, UsageError) and not isinstance(error, InvalidFilesError):
            raise  # there is no such environment: nothing else is meant by its name
        return EnvironmentStatus(instance or name, error=str(error))
    spec = workspace.spec
    try:
        return environment_status(state.cloud(spec), workspace, now=now)
    except (TritonstackError, BotoCoreError, ClientError) as error:
        return EnvironmentStatus(spec.name, spec.account, spec.region, error=str(error))
