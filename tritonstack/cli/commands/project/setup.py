"""`tritonstack setup`: install the server and the CDK CLI."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.context import Context
from tritonstack.operate.project.setup import ProjectSetup
from tritonstack.operate.project.setup import setup as run


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
    done = run(state, server=server)
    state.output.result(done, text=f"{_summary(done)}; run `tritonstack doctor` to check")


def _summary(done: ProjectSetup) -> str:
    return f"installed {', '.join(done.installed)}" if done.installed else "up to date"
