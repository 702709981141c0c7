"""`tritonstack setup`: install the server and the CDK CLI."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.workflows.installation.setup import setup_project


def setup(
    context: typer.Context,
    server: Annotated[
        bool, typer.Option("--server/--no-server", help="Install the embedded Triton server.")
    ] = True,
) -> None:
    """Install the Triton server and the CDK CLI.

    Installs Node into this Python environment if the machine has none that the CDK supports, and the CDK CLI
    of this release and the server into .tritonstack/. Machines that only deploy to AWS need no server.

    Example: tritonstack setup --no-server
    """
    state: Context = context.obj
    setup_project(state.project, server=server, on_step=state.output.note)
    state.output.result({"server": server}, text="installed; run `tritonstack doctor` to check")
