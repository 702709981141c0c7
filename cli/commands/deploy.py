"""`tritonstack deploy`: all of an environment, as its files and its lock say."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.errors import InvalidFilesError
from catalog.fitness import unbuilt
from catalog.loading import load_workspace
from cli.context import Context
from cli.deploying import deploy_workspace


def deploy(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to deploy.")],
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Run `cdk bootstrap` first if the account needs it.")
    ] = False,
) -> None:
    """Deploy an environment: its foundation, the artifacts its lock names, then all that stands on them.

    `cdk deploy --all -c env=<environment>` does the same once the artifacts are in the bucket. What the CDK
    alone cannot do, another instance type of an endpoint that scales, this command does in two phases.

    Example: tritonstack deploy local --bootstrap
    """
    state: Context = context.obj
    workspace = load_workspace(state.project, environment)
    if problems := unbuilt(workspace):
        raise InvalidFilesError(problems)
    deploy_workspace(state, workspace, state.cloud(workspace.spec), bootstrap=bootstrap)
    names = {name: workspace.spec.endpoint_name(name) for name in workspace.spec.endpoints}
    state.output.result(
        {"environment": environment, "endpoints": names},
        text="\n".join(f"{name}: endpoint {full} is in service" for name, full in names.items()),
    )
