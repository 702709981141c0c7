"""`tritonstack diff`: show what a deployment would change."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.diff_text import outlook_comment
from tritonstack.cli.rendering.diff_view import outlook_view
from tritonstack.cli.selection import NameOption
from tritonstack.operate.diff.diff import diff as run
from tritonstack.operate.diff.diff_since import diff_since as run_since
from tritonstack.operate.shared.local_cloud import deploy_commands


def diff(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to compare.", autocompletion=complete_deployable)
    ],
    name: NameOption = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="COMMIT", help="Compare with the files of a commit; needs no account."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print the CDK's diff of each stack first.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a comment for a pull request.")] = False,
) -> None:
    """Compare an environment's files with the deployed stacks, and show what a deployment would do.

    Shows which stacks and models change, which endpoints are rolled out and how, which changes need two
    phases, what is replaced, and what would be rejected. --full and --json add the CDK's own diff. Exits
    with code 1 if anything would be rejected. Changes nothing.

    With --since, compares with the files of a commit instead of an account, for example in a review. What
    only the account knows is not checked: changes made outside of git, and names that are taken.

    Example: tritonstack diff prod

    Example: tritonstack diff prod --since $(git merge-base origin/main HEAD)

    Example: tritonstack diff prod --full
    """
    state: Context = context.obj
    if since is not None and name is not None:
        raise CommandLineError(
            "--since and --name cannot be combined",
            remedy="omit --since to compare the instance with what is deployed",
        )
    outlook = (
        run(state, environment, instance=name) if since is None else run_since(state, environment, since)
    )
    text = outlook_comment(outlook) if markdown else Group(*outlook_view(outlook, with_cdk=full))
    state.output.result(outlook, text=text)
    if outlook.rejected:
        raise typer.Exit(1)
    if not outlook.changes_nothing and since is None:
        note = "" if full else "(--full shows the CDK's diff)"
        state.output.suggest(*deploy_commands(state.project, outlook.workspace), note=note)
