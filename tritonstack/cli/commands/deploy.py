"""`tritonstack deploy`: all of an environment, as its files and its lock say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.cli.context import Context
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.instances import read_instance
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.loading import find_template, load_instance, sample_instance
from tritonstack.project.workspace import Workspace
from tritonstack.workflows.deployment.deploying import deploy_workspace
from tritonstack.workflows.deployment.instance_request import Wish, lease, parse_settings


def deploy(
    context: typer.Context,
    environment: Annotated[str, typer.Argument(help="The environment to deploy, or a template.")],
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
    if name is not None:
        wish = Wish(name, ttl, owner, parse_settings(setting or ()))
        workspace = _leased(state, environment, wish)
    elif ttl or owner or setting:
        raise UsageError(
            "--ttl, --owner and --set are for instances of a template", remedy="add --name, or leave them out"
        )
    else:
        workspace = state.workspace(environment)
    if problems := unbuilt(workspace):
        raise InvalidFilesError(problems)
    deploy_workspace(state, workspace, state.cloud(workspace.spec), bootstrap=bootstrap)
    names = {name: workspace.spec.endpoint_name(name) for name in workspace.spec.endpoints}
    facts = {"environment": workspace.spec.name, "endpoints": names}
    lines = [f"{name}: endpoint {full} is in service" for name, full in names.items()]
    if instance := workspace.instance:
        facts |= {"owner": instance.owner, "expires": instance.expires}
        lines.append(f"{instance.name} belongs to {instance.owner} and expires at {instance.expires}")
    state.output.result(facts, text="\n".join(lines))


def _leased(state: Context, environment: str, wish: Wish) -> Workspace:
    template = find_template(state.project, environment)
    spec = load_instance(state.project, sample_instance(environment, wish.name)).spec
    return load_instance(
        state.project,
        lease(
            template,
            wish,
            standing=read_instance(state.cloud(spec), spec),
            actor=Checkout(state.project.root).actor(),
            now=datetime.now(UTC),
        ),
    )
