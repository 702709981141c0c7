"""`tritonstack deploy`: all of an environment, as its files and its lock say."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.base.errors import UsageError
from tritonstack.cli.completion import complete_deployable
from tritonstack.cli.context import Context
from tritonstack.workflows.deployment.deploy import deploy as run
from tritonstack.workflows.deployment.instance_request import InstanceRequest, parse_settings


def deploy(
    context: typer.Context,
    environment: Annotated[
        str,
        typer.Argument(help="The environment to deploy, or a template.", autocompletion=complete_deployable),
    ],
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Run `cdk bootstrap` first if the account needs it.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", help="Of a template: the name of the instance to deploy.")
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option("--ttl", metavar="TIME", help="How long the instance is to live: 30m, 4h, 1d12h."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Whose instance it is; by default yours.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter of the template.", metavar="KEY=VALUE")
    ] = None,
) -> None:
    """Deploy an environment: its foundation, the artifacts its lock names, then all that stands on them.

    `cdk deploy --all -c env=<environment>` does the same once the artifacts are in the bucket. What the CDK
    alone cannot do, another instance type of an endpoint that scales, this command does in two phases.

    With --name, the environment is a template, and what is deployed is an instance of it: an environment of
    its own, tagged with owner, purpose and expiry, until `tritonstack reap` or `destroy` takes it down.
    Deployed again, it keeps its owner, expiry and parameters unless they are given again.

    Example: tritonstack deploy local --bootstrap

    Example: tritonstack deploy preview --name pr-123 --ttl 4h
    """
    state: Context = context.obj
    if name is None and (ttl or owner or setting):
        raise UsageError(
            "--ttl, --owner and --set are for instances of a template", remedy="add --name, or leave them out"
        )
    request = InstanceRequest(name, ttl, owner, parse_settings(setting or ())) if name is not None else None
    deployment = run(state, environment, request=request, bootstrap=bootstrap)
    lines = [f"{name}: endpoint {full} is in service" for name, full in deployment.endpoints.items()]
    if instance := deployment.instance:
        lines.append(f"{instance.name} belongs to {instance.owner} and expires at {instance.expires}")
    state.output.result(deployment.to_json(), text="\n".join(lines))
