"""`tritonstack status`: how environments are doing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.status_text import status_lines
from tritonstack.operations.verification.status import EnvironmentStatus
from tritonstack.workflows.environments.expiring import Cases, expiry_text
from tritonstack.workflows.environments.status import status as run


def status(
    context: typer.Context,
    environments: Annotated[
        list[str] | None,
        typer.Argument(
            help="The environments; all that stay, if none is named.", autocompletion=complete_deployable
        ),
    ] = None,
    name: NameOption = None,
) -> None:
    """Show each environment: deployed from which commit, what it serves, machines, traffic, alarms, drift.

    Instances of templates are named below them, with how long they live. Traffic is that of the last 15
    minutes. An environment that cannot be reached is named with the reason and does not stop the others.
    Nothing is synthesized: `tritonstack diff` tells what exactly a deploy would change, `tritonstack verify`
    proves that what runs is what is asked for.

    Example: tritonstack status dev prod
    """
    state: Context = context.obj
    found = run(state, environments or (), instance=name)
    texts = ["\n".join(status_lines(one)) for one in found.environments] or ["there is no environment"]
    if found.expiring is not None:
        texts += (
            ["\n".join(lines)] if (lines := list(_for_a_while(found.expiring, found.environments))) else []
        )
    state.output.result(found.to_json(), text="\n\n".join(texts))


def _for_a_while(found: Cases, known: Sequence[EnvironmentStatus]) -> Iterator[str]:
    """What stands beside the environments; where one of them could not be reached, that was said already."""
    told = {(one.account, one.region) for one in known if one.error}
    if found.cases:
        yield "for a while: `tritonstack status <template> --name <name>` tells more of each"
        yield from (f"  {expiry_text(case.lease)}" for case in found.cases)
    for location, why in found.unreachable.items():
        if (location.account, location.region) not in told:
            yield f"what stands for a while in {location.account} {location.region} is not known: {why}"
