"""`tritonstack verify`: check that the deployed endpoints match the checked-out commit."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.verdict_text import verdict_lines
from tritonstack.cli.selection import NameOption
from tritonstack.operate.promote.promote import promotion_targets
from tritonstack.operate.verify.verify import verify as run


def verify(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to verify.", autocompletion=complete_deployable)
    ],
    name: NameOption = None,
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--endpoint", help="Verify only this endpoint; can be repeated.", autocompletion=complete_endpoint
        ),
    ] = None,
    smoke: Annotated[bool, typer.Option("--smoke/--no-smoke", help="Send requests to endpoints.")] = True,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Write the verdict to the environment's bucket.")
    ] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for running updates first.")] = False,
) -> None:
    """Compare deployed endpoints with the checked-out files, test every model, and record the verdict.

    Finds endpoints that were rolled back or changed manually although they are InService, alarms in state
    ALARM, and models whose answers differ from their build. Exits with code 1 if anything is wrong.
    --no-smoke --no-record requires read permissions only; only a verdict with answers counts as verified.

    Example: tritonstack verify prod --endpoint search
    """
    state: Context = context.obj
    verdict = run(
        state, environment, instance=name, endpoints=endpoint or (), smoke=smoke, record=record, wait=wait
    )
    state.output.result(verdict, text="\n".join(verdict_lines(verdict)), wrap=True)
    shown = f"{environment} --name {name}" if name else environment
    if not verdict.passed:
        state.output.suggest(f"tritonstack status {shown}", f"tritonstack logs {shown}")
        raise typer.Exit(1)
    if state.output.results.is_terminal:
        targets = promotion_targets(state, environment)
        state.output.suggest(*(f"tritonstack promote {environment} {target} --dry-run" for target in targets))
