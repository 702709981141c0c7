"""`tritonstack deploy`: deploy an environment from its files and its lock."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.cli.selection import BootstrapOption
from tritonstack.operate.deploy.deploy import deploy as run
from tritonstack.operate.deploy.instances import InstanceRequest, parse_settings


def deploy(
    context: typer.Context,
    environment: Annotated[
        str,
        typer.Argument(help="The environment to deploy, or a template.", autocompletion=complete_deployable),
    ],
    bootstrap: BootstrapOption = False,
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the template instance to deploy.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="The instance's lifetime: 30m, 4h, 1d12h.")
    ] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="The instance's owner (default: you).")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A template parameter.", metavar="KEY=VALUE")
    ] = None,
) -> None:
    """Deploy an environment: its foundation, its locked artifacts, then its endpoints.

    Once the artifacts are in the bucket, `cdk deploy --all -c env=<environment>` does the same, except
    changes that need two phases, such as another instance type of an endpoint with scaling.

    With --name, the environment is a template, and the command deploys an instance of it: a separate
    environment with owner, purpose, and expiry tags, until `tritonstack reap` or `destroy` deletes it.
    Redeploying keeps its owner, expiry, and parameters unless they are given again.

    Example: tritonstack deploy local --bootstrap

    Example: tritonstack deploy preview --name pr-123 --ttl 4h
    """
    state: Context = context.obj
    if name is None and (ttl or owner or setting):
        raise CommandLineError(
            "--ttl, --owner and --set require a template instance", remedy="add --name, or omit them"
        )
    request = InstanceRequest(name, ttl, owner, parse_settings(setting or ())) if name is not None else None
    deployment = run(state, environment, request=request, bootstrap=bootstrap)
    lines = [f"{name}: endpoint {full} is InService" for name, full in deployment.endpoints.items()]
    if instance := deployment.instance:
        lines.append(f"{instance.name} belongs to {instance.owner} and expires at {instance.expires}")
    state.output.result(deployment, text="\n".join(lines))
    deployed = f"{environment} --name {deployment.instance.name}" if deployment.instance else environment
    state.output.suggest(f"tritonstack verify {deployed}")
