"""`tritonstack status`: how environments are doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.status_text import status_lines
from tritonstack.operations.verification.status import EnvironmentStatus, environment_status
from tritonstack.project.loading import environment_names
from tritonstack.workflows.environments.deployed import grounds
from tritonstack.workflows.environments.expiring import Cases, lease_words, look_for_leased

_AT_ONCE = 4


def status(
    context: typer.Context,
    environments: Annotated[
        list[str] | None, typer.Argument(help="The environments; all that stay, if none is named.")
    ] = None,
    name: NameOption = None,
) -> None:
    """Show each environment: deployed from which commit, what it serves, machines, traffic, alarms, drift.

    Instances of templates are named below them, with how long they live. Traffic is that of the last 15
    minutes. An environment that cannot be reached is named with the reason and does not stop the others.
    Nothing is synthesised: `tritonstack diff` tells what exactly a deploy would change, `tritonstack verify`
    proves that what runs is what is asked for.

    Example: tritonstack status dev prod
    """
    state: Context = context.obj
    if name is not None and len(environments or ()) != 1:
        raise UsageError("--name goes with one template", remedy="for example status preview --name pr-123")
    now = datetime.now(UTC)
    wanted = environments or environment_names(state.project)
    with state.output.step("looking at what runs"), ThreadPoolExecutor(_AT_ONCE) as pool:
        beside = None
        if not environments:
            beside = pool.submit(look_for_leased, state, grounds(state.project), now=now)
        known = list(pool.map(lambda one: _one(state, one, name, now=now), wanted))
        found = beside.result() if beside else None
    texts = ["\n".join(status_lines(one)) for one in known] or ["there is no environment"]
    facts: dict[str, Any] = {"environments": [one.facts() for one in known]}
    if found is not None:
        facts["for_a_while"] = [asdict(case.lease) for case in found.cases]
        facts["not_looked_at"] = found.gaps
        texts += ["\n".join(lines)] if (lines := list(_for_a_while(found, known))) else []
    state.output.result(facts, text="\n\n".join(texts))


def _for_a_while(found: Cases, known: Sequence[EnvironmentStatus]) -> Iterator[str]:
    """What stands beside the environments; where one of them could not be reached, that was said already."""
    told = {(one.account, one.region) for one in known if one.error}
    if found.cases:
        yield "for a while: `tritonstack status <template> --name <name>` tells more of each"
        yield from (f"  {lease_words(case.lease)}" for case in found.cases)
    for ground, why in found.unreachable.items():
        if (ground.account, ground.region) not in told:
            yield f"what stands for a while in {ground.account} {ground.region} is not known: {why}"


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
