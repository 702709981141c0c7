"""`tritonstack rollback`: an endpoint runs again what an earlier lock names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_deployable, complete_endpoint
from tritonstack.cli.context import Context
from tritonstack.cli.selection import NameOption
from tritonstack.cli.verdict_text import verdict_lines
from tritonstack.operations.locks.rollback import RollbackPlan
from tritonstack.workflows.deployment.rollback import RollbackRefutedError, require_no_instance
from tritonstack.workflows.deployment.rollback import rollback as run


def rollback(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment.", autocompletion=complete_deployable)],
    endpoint: Annotated[
        str,
        typer.Argument(
            help="The endpoint, by its name in the environment file.", autocompletion=complete_endpoint
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option("--to", help="A commit or a digest; by default what it served before."),
    ] = None,
    name: NameOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go back to what; change nothing.")
    ] = False,
) -> None:
    """Take an endpoint back to what an earlier lock in git names: write the lock, deploy, and verify.

    Other endpoints of the environment that serve the same model go back with it, and are named. What was
    deleted from the artifact bucket is brought back, for a month. Interrupted, the same command goes on; once
    it is done, it does nothing more. Commit the lock afterwards.

    Example: tritonstack rollback prod search --to 3f2c9d1
    """
    state: Context = context.obj
    if name is not None:
        require_no_instance(state, environment, name)
    try:
        result = run(state, environment, endpoint, to=to, dry_run=dry_run)
    except RollbackRefutedError as error:
        state.output.note("\n".join(verdict_lines(error.verdict)))
        raise
    verb = "would go back" if dry_run else "went back"
    state.output.result(result.to_json(), text="\n".join(_lines(result.plan, verb)))


def _lines(plan: RollbackPlan, verb: str) -> Sequence[str]:
    lines = [f"{plan.endpoint} {verb} to {plan.origin}:", *(f"  {step.words}" for step in plan.steps)]
    if plan.others:
        lines.append(f"  with it, for they serve the same: {', '.join(plan.others)}")
    return lines
