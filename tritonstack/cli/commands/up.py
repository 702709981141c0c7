"""`tritonstack up`: start the embedded cloud."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT, is_embedded
from tritonstack.cli.context import Context
from tritonstack.operations.aws import CONFLICTING_VARIABLES
from tritonstack.reference.images import image_account
from tritonstack.runtime import ExposureRefusedError
from tritonstack.runtime.sandbox import EXPOSE, require_namespaces_or_consent
from tritonstack.workflows import local_cloud
from tritonstack.workflows.local_cloud import (
    cloud_settings,
    profile_path,
    read_address,
    require_local_cloud,
    run_foreground,
    start_detached,
)

if TYPE_CHECKING:
    from tritonstack.workflows.local_cloud import CloudAddress

DEFAULT_MINUTE_S = 1.0


def up(  # noqa: PLR0913, PLR0917 - each is an option of the command
    context: typer.Context,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once it answers.")] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Listen here; by default on a free port.")
    ] = None,
    account: Annotated[
        str, typer.Option(help="The account it plays; clouds of several run side by side.")
    ] = EMBEDDED_ACCOUNT,
    region: Annotated[str, typer.Option(help="The region it plays.")] = "us-east-1",
    minute: Annotated[
        float,
        typer.Option(
            min=0.1, max=60, help="Seconds that a minute of a rollout's and an alarm's waiting lasts here."
        ),
    ] = DEFAULT_MINUTE_S,
    containers: Annotated[
        bool,
        typer.Option("--containers", help="Run endpoints in their image where Docker holds it."),
    ] = False,
    loaded_models: Annotated[
        int | None,
        typer.Option(
            min=1, help="Models that a multi-model instance holds loaded; by default as its memory allows."
        ),
    ] = None,
    expose: Annotated[
        bool,
        typer.Option("--expose", help="Allow Triton on every network interface where it cannot be isolated."),
    ] = False,
    shell: Annotated[
        bool, typer.Option("--shell", help="Print shell lines that set AWS credentials, for `eval`.")
    ] = False,
    capabilities: Annotated[
        bool, typer.Option("--capabilities", help="Print what it can do, and start nothing.")
    ] = False,
) -> None:
    """Start the embedded AWS on this machine: S3, IAM, CloudFormation, SageMaker with a real Triton, ...

    It runs until Ctrl-C, or, with --detach, until `tritonstack down`. AWS has none of the accounts
    000000000000 to 000000000009: environments in them are found in the cloud that plays their account.

    Example: tritonstack up --detach
    """
    state: Context = context.obj
    if capabilities:
        _report_capabilities(state)
        return
    require_local_cloud()
    image_account(region)  # refuses a region that no environment can name
    running = read_address(state.project.cloud_dir(account))
    if shell and running is not None:
        _report(state, running, shell=shell)
        return
    if containers:
        _require_engine()
    if expose:
        os.environ[EXPOSE] = "1"
    _tell_what_cannot_start(state)
    settings = cloud_settings(
        state_dir=state.project.cloud_dir(account),
        server_home=state.project.server_dir,
        account_id=account,
        region=region,
        minute_s=minute,
        containers=containers,
        loaded_models=loaded_models,
    )
    if not detach:
        run_foreground(settings, port=port, on_ready=lambda address: _report(state, address, shell=shell))
        return
    with state.output.step("starting the embedded cloud"):
        address = start_detached(settings, port=port)
    _report(state, address, shell=shell)


def _tell_what_cannot_start(state: Context) -> None:
    """Warn early that endpoints will fail on this machine."""
    try:
        require_namespaces_or_consent()
    except ExposureRefusedError as refused:
        state.output.note(f"endpoints cannot start: {refused.message}\n  help: {refused.remedy}")


def _require_engine() -> None:
    """Tell that there is none before anything starts."""
    # Imported here: no other use of this command needs Docker's library.
    from tritonstack.runtime.docker_engine import docker_engine  # noqa: PLC0415

    docker_engine()


def _report(state: Context, address: CloudAddress, *, shell: bool) -> None:
    variables = address.environment()
    lines = [
        f"unset {' '.join(CONFLICTING_VARIABLES)}",
        *(f"export {name}={value}" for name, value in variables.items()),
    ]
    profile = profile_path(state.project.cloud_dir(address.account_id))
    text = "\n".join(
        (
            f"the embedded cloud listens on {address.endpoint_url} (account {address.account_id})",
            "  credentials for other AWS tools, one of:",
            f'    eval "$(tritonstack up{_account_option(address)} --shell)"',
            f"    export AWS_CONFIG_FILE={profile} AWS_SHARED_CREDENTIALS_FILE={profile}",
        )
    )
    state.output.result(
        {
            "endpoint_url": address.endpoint_url,
            "pid": address.pid,
            "profile": str(profile),
            # Other output is kept in logs, which the secret must not reach.
            "environment": {
                name: value for name, value in variables.items() if shell or name != "AWS_SECRET_ACCESS_KEY"
            },
            "notices": address.notices,
        },
        text="\n".join(lines) if shell else text,
    )
    for notice in address.notices:
        state.output.note(notice)
    if not shell and not is_embedded(address.account_id):
        state.output.note(
            f"account {address.account_id} may be one of AWS: commands mean this cloud by it in a shell "
            f'that has run eval "$(tritonstack up --account {address.account_id} --shell)"'
        )


def _account_option(address: CloudAddress) -> str:
    return "" if address.account_id == EMBEDDED_ACCOUNT else f" --account {address.account_id}"


def _report_capabilities(state: Context) -> None:
    cloud = local_cloud.capabilities()

    refused = cloud.refused()
    state.output.result(
        {
            "types": [asdict(item) for item in cloud.capabilities()],
            "actions": cloud.actions(),
            "limits": [asdict(item) for item in cloud.limits()],
            "refused": refused,
        },
        text="\n".join(
            [
                "CloudFormation types\n",
                cloud.capability_table(),
                "\nAccepted, but not or not wholly with its effect on AWS",
                cloud.limit_tables(),
                "\nActions of this cloud's own services; moto's are in its documentation\n",
                *(f"{service}: {', '.join(names)}" for service, names in cloud.actions().items()),
                "\nTypes and fields that are known and refused\n",
                *cloud.reason_table(refused),
            ]
        ),
    )
