"""`tritonstack down`: stop local clouds and everything that they started."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.context import Context
from tritonstack.operate.local.clouds import StoppedCloud, StoppedClouds, down_all
from tritonstack.operate.local.clouds import down as run


def down(
    context: typer.Context,
    account: Annotated[
        str | None, typer.Option(help=f"The account that it emulates.  [default: {EMBEDDED_ACCOUNT}]")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every local cloud of this project.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove its state too; the next one starts empty.")
    ] = False,
) -> None:
    """Stop the local cloud, its endpoints, and their Triton servers.

    Its state is kept: the next `tritonstack up` starts its endpoints again. Local clouds of other accounts
    keep running; stop one with --account, or all with --all.

    Example: tritonstack down --account 000000000001
    """
    state: Context = context.obj
    if every and account is not None:
        raise CommandLineError(
            "--all stops every cloud, but --account names one", remedy="omit one of the two"
        )
    if every:
        results = down_all(state, forget=forget)
        state.output.result(results, text=_all_text(results, forget=forget))
        return
    cloud = run(state, account or EMBEDDED_ACCOUNT, forget=forget)
    state.output.result(cloud, text=_text(cloud, forget=forget))
    if cloud.still_running:
        names = ", ".join(cloud.still_running)
        state.output.note(f"still running: {names}; `tritonstack down --all` stops every local cloud")


def _text(cloud: StoppedCloud, *, forget: bool) -> str:
    text = "the local cloud has stopped" if cloud.stopped else "the local cloud was not running"
    if forget:
        text += "; its state is removed" if cloud.forgotten else "; it had no state"
    return text


def _all_text(all_of_them: StoppedClouds, *, forget: bool) -> str:
    stopped = ", ".join(all_of_them.stopped)
    text = f"stopped: {stopped}" if stopped else "no local cloud was running"
    return f"{text}; state removed: {', '.join(all_of_them.forgotten) or 'none'}" if forget else text
