"""`tritonstack up`: start a local cloud."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT, up_command
from tritonstack.cli.context import Context
from tritonstack.operate.local.clouds import CloudOptions, RunningCloud
from tritonstack.operate.local.clouds import up as run
from tritonstack.operate.shared import local_cloud


def up(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it listens.")] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on; by default a free one.")
    ] = None,
    account: Annotated[
        str, typer.Option(help="The account to emulate; clouds of several accounts can run.")
    ] = EMBEDDED_ACCOUNT,
    region: Annotated[str, typer.Option(help="The region to emulate.")] = "us-east-1",
    minute: Annotated[
        float,
        typer.Option(
            min=0.1, max=60, help="Seconds that a minute of waiting takes, in rollouts, alarms, and scaling."
        ),
    ] = 1.0,
    provisioning: Annotated[
        float,
        typer.Option(
            min=0, max=60, help="Minutes on AWS that an instance added by scaling takes before it serves."
        ),
    ] = 0.0,
    containers: Annotated[
        bool, typer.Option("--containers", help="Run endpoints in their image if Docker has it.")
    ] = False,
    loaded_models: Annotated[
        int | None,
        typer.Option(
            min=1, help="Models that a multi-model instance keeps loaded; by default as memory allows."
        ),
    ] = None,
    expose: Annotated[
        bool, typer.Option("--expose", help="Let Triton listen on all interfaces if it cannot be isolated.")
    ] = False,
    shell: Annotated[
        bool, typer.Option("--shell", help="Print shell lines that set AWS credentials, for `eval`.")
    ] = False,
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="Print what is emulated, and start nothing.")
    ] = False,
) -> None:
    """Start a local cloud: S3, IAM, CloudFormation, SageMaker with a real Triton server, and more.

    It runs until Ctrl-C, or, with --detach, until `tritonstack down`. AWS never assigns the accounts
    000000000000 to 000000000009: environments in these accounts use the local cloud of their account.

    Example: tritonstack up --detach
    """
    state: Context = context.obj
    if capabilities:
        _report_capabilities(state)
        return
    options = CloudOptions(
        account=account,
        region=region,
        port=port,
        minute_s=minute,
        containers=containers,
        loaded_models=loaded_models,
        provisioning_minutes=provisioning,
        expose=expose,
        reuse=shell,
    )
    reported = False

    def report(cloud: RunningCloud) -> None:
        nonlocal reported
        reported = True
        _report(state, cloud, shell=shell)

    cloud = run(state, options, on_ready=None if detach else report)
    if not reported:
        report(cloud)


def _report(state: Context, cloud: RunningCloud, *, shell: bool) -> None:
    shown = replace(cloud, shows_secret=shell)
    state.output.result(shown, text=_shell_lines(cloud) if shell else _text(cloud))
    for notice in cloud.notices:
        state.output.note(notice)
    if not shell:
        state.output.suggest(*local_cloud.commands_after_up(state.project, cloud.account))
    if not shell and not cloud.reserved:
        state.output.note(
            f"AWS may have an account {cloud.account}: commands use this local cloud for it only in a shell "
            f'that has run eval "$({up_command(cloud.account, "--shell")})"'
        )


def _shell_lines(cloud: RunningCloud) -> str:
    exports = (f"export {name}={value}" for name, value in cloud.variables.items())
    return "\n".join((f"unset {' '.join(cloud.conflicting)}", *exports))


def _text(cloud: RunningCloud) -> str:
    return "\n".join(
        (
            f"the local cloud listens on {cloud.endpoint_url} (account {cloud.account})",
            "  credentials for other AWS tools, one of:",
            f'    eval "$({up_command(cloud.account, "--shell")})"',
            f"    export AWS_CONFIG_FILE={cloud.profile} AWS_SHARED_CREDENTIALS_FILE={cloud.profile}",
        )
    )


def _report_capabilities(state: Context) -> None:
    capabilities = local_cloud.capabilities()
    state.output.result(capabilities, text=capabilities.page())
