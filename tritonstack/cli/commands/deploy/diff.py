"""`tritonstack diff`: show what a deployment would change."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.diff_text import outlook_comment, outlook_text
from tritonstack.cli.selection import NameOption
from tritonstack.workflows.deployment.diff import diff as run


def diff(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to compare.", autocompletion=complete_deployable)
    ],
    name: NameOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Compare an environment's files with the deployed stacks, and show what a deployment would do.

    Prints the CDK's diff per stack, then a summary: which models change, which endpoints are rolled out and
    how, which changes need two phases, what is replaced, and what would be rejected. Exits with code 1 if
    anything would be rejected. Changes nothing.

    Example: tritonstack diff prod
    """
    state: Context = context.obj
    outlook = run(state, environment, instance=name)
    text = outlook_comment(outlook) if markdown else outlook_text(outlook)
    state.output.result(outlook.to_json(), text=text)
    if outlook.rejected:
        raise typer.Exit(1)
