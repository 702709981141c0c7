"""`tritonstack destroy`: take an environment down to nothing."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from catalog.errors import UsageError
from catalog.loading import load_workspace
from cli.context import Context
from operations.cdk import InterruptedDeployError
from operations.destroy import destroy_environment, require_removable
from operations.stacks import environment_stacks


def destroy(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to destroy.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete an environment's endpoints, its buckets with all they hold, its keys, images and alarms.

    Example: tritonstack destroy local --yes
    """
    state: Context = context.obj
    spec = load_workspace(state.project, environment).spec
    require_removable(spec)
    cloud = state.cloud(spec)
    if not yes:
        _confirm(environment, [stack.name for stack in environment_stacks(cloud, spec.base)])
    try:
        with state.output.step(f"destroying {environment}") as step:
            deleted = destroy_environment(
                cloud, spec, on_change=lambda stack: step.log(f"{stack.name}: {stack.status}")
            )
            step.detail = f"{len(deleted)} stacks deleted" if deleted else "there was nothing to destroy"
    except KeyboardInterrupt:
        raise InterruptedDeployError(
            "interrupted; CloudFormation finishes the deletions that it has begun",
            remedy=f"`tritonstack destroy {environment}` waits for that and goes on",
        ) from None
    state.output.result({"deleted_stacks": deleted}, text=f"environment {environment} is gone")


def _confirm(environment: str, stacks: list[str]) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            f"destroying {environment} deletes {', '.join(stacks) or 'nothing'} and needs a confirmation",
            remedy="add --yes",
        )
    typer.confirm(f"Delete {', '.join(stacks) or 'nothing'} with all their data?", abort=True, err=True)
