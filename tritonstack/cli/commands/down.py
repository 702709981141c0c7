"""`tritonstack down`: end embedded clouds and everything they started; forget them if asked to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT, EMBEDDED_ACCOUNTS
from tritonstack.base.errors import UsageError
from tritonstack.cli.context import Context
from tritonstack.workflows.local_cloud import forget_cloud, read_address, stop_cloud


def down(
    context: typer.Context,
    account: Annotated[
        str | None, typer.Option(help=f"The account that it plays.  [default: {EMBEDDED_ACCOUNT}]")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every cloud of this project, whatever its account and name.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove its state too: the next one starts with nothing.")
    ] = False,
) -> None:
    """End the embedded cloud, its endpoints and their Triton servers.

    What it remembers stays, and its endpoints come back with the next `tritonstack up`. Clouds of other
    accounts run on: each is ended by its --account, or all of them by --all.

    Example: tritonstack down --account 000000000001
    """
    state: Context = context.obj
    if every and account is not None:
        raise UsageError("--all ends every cloud, and --account names one", remedy="give one of the two")
    if every:
        _end_all(state, forget=forget)
        return
    with state.output.step("ending the embedded cloud"):
        ended = _end(state.project.cloud_dir(account or EMBEDDED_ACCOUNT), forget=forget)
    state.output.result({"stopped": ended.stopped, "forgotten": ended.forgotten}, text=ended.told(forget))
    others = [other for other in EMBEDDED_ACCOUNTS if read_address(state.project.cloud_dir(other))]
    if others:
        state.output.note(f"still running: {', '.join(others)}; `tritonstack down --all` ends every cloud")


@dataclass(frozen=True)
class _Ended:
    """What became of a cloud."""

    stopped: bool
    forgotten: bool

    def told(self, forget: bool) -> str:
        """Tell it."""
        text = "the embedded cloud has ended" if self.stopped else "the embedded cloud was not running"
        if forget:
            text += "; its state is removed" if self.forgotten else "; there was no state of it"
        return text


def _end(folder: Path, *, forget: bool) -> _Ended:
    stopped = stop_cloud(folder)
    return _Ended(stopped, forgotten=forget and forget_cloud(folder))


def _end_all(state: Context, *, forget: bool) -> None:
    folders = sorted(state.project.clouds_dir.glob("*/"))
    with state.output.step("ending every embedded cloud of this project"):
        ended = {folder.name: _end(folder, forget=forget) for folder in folders}
    stopped = [name for name, end in ended.items() if end.stopped]
    forgotten = [name for name, end in ended.items() if end.forgotten]
    text = f"ended: {', '.join(stopped)}" if stopped else "no embedded cloud was running"
    if forget:
        text += f"; state removed: {', '.join(forgotten) or 'none'}"
    state.output.result({"stopped": stopped, "forgotten": forgotten}, text=text)
