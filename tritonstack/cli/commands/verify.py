"""`tritonstack verify`: prove that what runs is what the checked-out commit asks for."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.verdict_text import verdict_lines
from tritonstack.workflows.deployment.verify import verify as run


def verify(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to verify.", autocompletion=complete_deployable)
    ],
    name: NameOption = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint", help="This endpoint alone; may be given again.", autocompletion=complete_endpoint
        ),
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke/--no-smoke", help="Send requests to endpoints.")] = True,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Write the verdict to the environment's bucket.")
    ] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait first for what is still going on.")] = False,
) -> None:
    """Compare what runs with what the checked-out files ask for, ask every model, and write down the verdict.

    An endpoint that went back to what it had before, or was changed by hand, looks well and is not what was
    asked for; an alarm that rings, a model that answers otherwise than its build did, are faults as well.
    Exit code 1 if anything is wrong. --no-smoke --no-record needs the right to read and nothing else; only
    a verdict with answers counts as verified.

    Example: tritonstack verify prod --endpoint search
    """
    state: Context = context.obj
    verdict = run(
        state,
        environment,
        instance=name,
        endpoints=endpoint or (),
        smoke=smoke,
        record=record,
        wait=wait,
    )
    state.output.result(verdict.facts(), text="\n".join(verdict_lines(verdict)))
    if not verdict.passed:
        raise typer.Exit(1)
