"""`tritonstack rollback`: roll an endpoint back to an earlier lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_endpoint
from tritonstack.cli.context import Context
from tritonstack.cli.rendering.verdict_text import verdict_lines
from tritonstack.cli.selection import EnvironmentArgument, NameOption
from tritonstack.operate.rollback.rollback import RollbackRefutedError, require_no_instance
from tritonstack.operate.rollback.rollback import rollback as run
from tritonstack.operate.rollback.rollback_targets import RollbackPlan


def rollback(
    context: typer.Context,
    environment: EnvironmentArgument,
    endpoint: Annotated[
        str,
        typer.Argument(help="The endpoint's name in the environment file.", autocompletion=complete_endpoint),
    ],
    to: Annotated[
        str | None, typer.Option("--to", help="A commit or digest (default: what it served before).")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Switch to what is retained first, then deploy.")
    ] = False,
    name: NameOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be rolled back; change nothing.")
    ] = False,
) -> None:
    """Roll an endpoint back to an earlier lock in git: write the lock, deploy, and verify.

    Other endpoints of the environment that serve the same model are rolled back too, and listed. Deleted
    artifacts are restored for up to a month. An interrupted rollback resumes when rerun; a completed one
    changes nothing. Commit the lock afterwards.

    With --now, the endpoint first switches to its retained earlier configuration, without waiting for
    alarms: all at once, or in the batches of a rolling rollout or of an inference component. Lock, stack, and
    verdict follow.

    Example: tritonstack rollback prod search --now

    Example: tritonstack rollback prod search --to 3f2c9d1
    """
    state: Context = context.obj
    if name is not None:
        require_no_instance(state, environment, name)
    try:
        result = run(state, environment, endpoint, to=to, now=now, dry_run=dry_run)
    except RollbackRefutedError as error:
        state.output.note("\n".join(verdict_lines(error.verdict)))
        raise
    verb = "would be rolled back" if dry_run else "was rolled back"
    state.output.result(result, text="\n".join(_lines(result.plan, verb)))


def _lines(plan: RollbackPlan, verb: str) -> Sequence[str]:
    lines = [f"{plan.endpoint} {verb} to {plan.origin}:", *(f"  {step.description}" for step in plan.steps)]
    if plan.others:
        lines.append(f"  also rolled back (same models): {', '.join(plan.others)}")
    return lines
