"""Start a local cloud."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT, EMBEDDED_ACCOUNTS
from tritonstack.base.results import Internal, public
from tritonstack.facts.images import image_account
from tritonstack.operate.shared.aws import CONFLICTING_VARIABLES
from tritonstack.operate.shared.local_cloud import (
    cloud_settings,
    forget_cloud,
    is_local,
    profile_path,
    read_address,
    require_local_cloud,
    run_foreground,
    start_detached,
    stop_cloud,
)
from tritonstack.operate.shared.session import Session
from tritonstack.triton import ExposureRejectedError
from tritonstack.triton.sandbox import require_namespaces_or_consent

if TYPE_CHECKING:
    from tritonstack.operate.shared.local_cloud import LocalCloudAddress

_SECRET = "AWS_SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class CloudOptions:
    """The options of a local cloud."""

    account: str = EMBEDDED_ACCOUNT
    """The account that the cloud emulates; clouds of several accounts can run at the same time."""
    region: str = "us-east-1"
    port: int | None = None
    """None for a free port."""
    minute_s: float = 1.0
    """Seconds that a minute of waiting takes, in rollouts, alarms, and scaling."""
    provisioning_minutes: float = 0.0
    """Minutes on AWS that an instance added by scaling takes before it serves, at least."""
    containers: bool = False
    """Run endpoints in their image if the Docker engine of this machine has it."""
    loaded_models: int | None = None
    """Models that an instance of a multi-model endpoint keeps loaded; by default as its memory allows."""
    expose: bool = False
    """Allow Triton to listen on every network interface if it cannot be isolated."""
    reuse: bool = False
    """Return a cloud that is running already instead of failing."""


@dataclass(frozen=True)
class RunningCloud:
    """A running local cloud."""

    endpoint_url: str
    account: Internal[str]
    pid: int
    profile: Path
    """An AWS profile file with its credentials."""
    variables: Internal[Mapping[str, str]] = field(repr=False)
    """Environment variables with which AWS tools reach it; they include a secret."""
    notices: tuple[str, ...] = ()
    reserved: Internal[bool] = True
    """False if AWS may have this account, too."""
    conflicting: Internal[tuple[str, ...]] = CONFLICTING_VARIABLES
    """Environment variables to unset: with them, AWS tools would not reach it."""
    shows_secret: Internal[bool] = False
    """True if the JSON document has the secret; output is often logged."""

    @public
    def environment(self) -> dict[str, str]:
        """Environment variables that select it; the secret only with `--shell`."""
        return {name: value for name, value in self.variables.items() if self.shows_secret or name != _SECRET}


def up(
    session: Session,
    options: CloudOptions | None = None,
    *,
    on_ready: Callable[[RunningCloud], None] | None = None,
) -> RunningCloud:
    """Start a local cloud in the background, and return once it listens.

    With `on_ready`, run it in this process instead, until it is interrupted; call `on_ready` once it listens.
    """
    options = options or CloudOptions()
    folder = session.project.cloud_dir(options.account)
    require_local_cloud()
    image_account(options.region)  # rejects a region that no environment can have
    address = read_address(folder)
    if options.reuse and address is not None:
        return _running(session, address)
    if options.containers:
        _require_docker()
    if not options.expose:
        _warn_about_endpoints(session)
    settings = cloud_settings(
        state_dir=folder,
        server_home=session.project.server_dir,
        account_id=options.account,
        region=options.region,
        minute_s=options.minute_s,
        containers=options.containers,
        loaded_models=options.loaded_models,
        provisioning_minutes=options.provisioning_minutes,
        expose=options.expose,
    )
    if on_ready is None:
        with session.reporter.step("starting the local cloud"):
            return _running(session, start_detached(settings, port=options.port))
    clouds: list[RunningCloud] = []

    def on_address(address: LocalCloudAddress) -> None:
        clouds.append(_running(session, address))
        on_ready(clouds[0])

    run_foreground(settings, port=options.port, on_ready=on_address)
    return clouds[0]


def _running(session: Session, address: LocalCloudAddress) -> RunningCloud:
    return RunningCloud(
        endpoint_url=address.endpoint_url,
        account=address.account_id,
        pid=address.pid,
        profile=profile_path(session.project.cloud_dir(address.account_id)),
        variables=address.environment(),
        notices=tuple(address.notices),
        reserved=is_local(address.account_id),
    )


def _warn_about_endpoints(session: Session) -> None:
    """Warn early if endpoints cannot start on this machine."""
    try:
        require_namespaces_or_consent()
    except ExposureRejectedError as error:
        session.reporter.note(f"endpoints cannot start: {error.message}\n  help: {error.remedy}")


def _require_docker() -> None:
    """Raise if no Docker engine answers, before anything starts."""
    # Imported here: no other option needs Docker's library.
    from tritonstack.triton.docker_engine import docker_engine  # noqa: PLC0415

    docker_engine()


@dataclass(frozen=True)
class StoppedCloud:
    """The local cloud of one account, which does not run any more."""

    stopped: bool
    """False if it was not running."""
    forgotten: bool
    """True if its state was removed."""
    still_running: Internal[tuple[str, ...]] = ()
    """The accounts of the project's other running clouds."""


@dataclass(frozen=True)
class StoppedClouds:
    """The local clouds of a project, by the name of their state folder."""

    stopped: tuple[str, ...]
    """Those that were running."""
    forgotten: tuple[str, ...]
    """Those whose state was removed."""


def down(session: Session, account: str = EMBEDDED_ACCOUNT, *, forget: bool = False) -> StoppedCloud:
    """Stop the local cloud of an account, with its endpoints; with `forget`, remove its state too."""
    with session.reporter.step("stopping the local cloud"):
        stopped, forgotten = _stop(session.project.cloud_dir(account), forget=forget)
    others = tuple(other for other in EMBEDDED_ACCOUNTS if read_address(session.project.cloud_dir(other)))
    return StoppedCloud(stopped, forgotten, others)


def down_all(session: Session, *, forget: bool = False) -> StoppedClouds:
    """Stop every local cloud of the project; with `forget`, remove their state too."""
    folders = sorted(session.project.clouds_dir.glob("*/"))
    with session.reporter.step("stopping all local clouds of this project"):
        results = {folder.name: _stop(folder, forget=forget) for folder in folders}
    return StoppedClouds(
        tuple(name for name, (stopped, _) in results.items() if stopped),
        tuple(name for name, (_, forgotten) in results.items() if forgotten),
    )


def _stop(folder: Path, *, forget: bool) -> tuple[bool, bool]:
    """Return whether a cloud was running, and whether its state was removed."""
    stopped = stop_cloud(folder)
    return stopped, forget and forget_cloud(folder)
