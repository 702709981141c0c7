"""`tritonstack down`: end the embedded cloud and everything it started; forget it if asked to."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.accounts import EMBEDDED_ACCOUNT
from cli.context import Context
from local_cloud.process import forget as forget_cloud
from local_cloud.process import stop


def down(
    context: typer.Context,
    account: Annotated[str, typer.Option(help="The account that it plays.")] = EMBEDDED_ACCOUNT,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove its state too: the next one starts with nothing.")
    ] = False,
) -> None:
    """End the embedded cloud, its endpoints and their Triton servers.

    What it remembers stays, and its endpoints come back with the next `tritonstack up`.

    Example: tritonstack down
    """
    state: Context = context.obj
    with state.output.step("ending the embedded cloud"):
        stopped = stop(state_dir=state.project.cloud_dir(account))
    text = "the embedded cloud has ended" if stopped else "the embedded cloud was not running"
    forgotten = forget and forget_cloud(state_dir=state.project.cloud_dir(account))
    if forget:
        text += "; its state is removed" if forgotten else "; there was no state of it"
    state.output.result({"stopped": stopped, "forgotten": forgotten}, text=text)
