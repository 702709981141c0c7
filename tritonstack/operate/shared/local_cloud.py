"""Reach the local cloud of the optional package tritonstack-local, by its entry points."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from tritonstack.base.embedded_accounts import is_embedded, up_command
from tritonstack.base.error_kinds import LocalCloudError, MissingPackageError
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.extras import install_command, wing_entry
from tritonstack.base.paths import Project
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.names import environment_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.operate.shared.aws import Cloud, CloudAccessError, readable_cloud

WHAT = "the local cloud"
_PACKAGE = "tritonstack_local"


class LocalCloudAddress(Protocol):
    """A running local cloud."""

    @property
    def endpoint_url(self) -> str:
        """Where it listens."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def account_id(self) -> str:
        """The account that it emulates."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages about its start."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables that direct AWS tools to it."""


class LocalCloudCapabilities(Protocol):
    """What the local cloud supports."""

    def page(self) -> str:
        """Return it as Markdown."""


class CloudNotRunningError(CloudAccessError):
    """The environment is in the local cloud, and that is not running. Start it with
    `tritonstack up --detach`.
    """

    code = "TS608"
    title = "Local cloud is not running"


def require_local_cloud() -> None:
    """Raise UsageError if the extra `local` is not installed."""
    module = _missing_module()
    if module is not None:
        raise MissingPackageError(
            f"{WHAT} is not installed: no module {module!r}", remedy=f"run `{install_command(module)}`"
        )


def _missing_module() -> str | None:
    return next((name for name in (_PACKAGE, "moto") if find_spec(name) is None), None)


@functools.cache
def _part(name: str) -> Any:
    """Return a function or class of the local cloud."""
    return wing_entry("tritonstack.local_cloud", name, package=_PACKAGE).load()


def read_address(state_dir: Path) -> LocalCloudAddress | None:
    """Return where the local cloud with this state listens; None if it is not running."""
    require_local_cloud()
    return cast("LocalCloudAddress | None", _part("read_address")(state_dir))


def is_local(account: str) -> bool:
    """Return True if an account is reserved for local clouds; AWS has no such account."""
    return is_embedded(account)


def find_cloud(
    project: Project, account: str, region: str, *, subject: str, profile: str | None = None
) -> Cloud | None:
    """Return access to the running local cloud of an account; None if the account is not a local one.

    `subject` names the purpose in errors.
    """
    if not is_local(account):
        return None
    if profile is not None:
        raise UsageError(
            f"{subject} is in the local cloud, which has no profiles",
            remedy=f"omit the profile {profile!r}",
            code=LocalCloudError.code,
        )
    module = _missing_module()
    if module is not None:  # access is missing: commands that read many locations list it and continue
        raise CloudAccessError(
            f"{subject} is in the local cloud, and the extra `local` is not installed",
            remedy=f"run `{install_command(module)}`",
            code=MissingPackageError.code,
        )
    address = read_address(project.cloud_dir(account))
    start = up_command(account, "--detach")
    if address is None:
        raise CloudNotRunningError(
            f"{subject} is in the local cloud, which is not running", remedy=f"start it with `{start}`"
        )
    if address.account_id != account:
        raise CloudAccessError(
            f"the local cloud emulates account {address.account_id}, but {subject} is in {account}",
            remedy=f"run `{start.replace(' up', ' down', 1).removesuffix(' --detach')}`, then `{start}`",
            code=LocalCloudError.code,
        )
    return Cloud(account, region, address.environment())


def deploy_commands(project: Project, workspace: Workspace) -> list[str]:
    """Return the commands that deploy an environment, a local one with its cloud and its bootstrap stack."""
    deploy, account = f"tritonstack deploy {workspace.cli_arguments}", workspace.spec.account
    if not is_local(account):
        return [deploy]
    is_running = _missing_module() is None and read_address(project.cloud_dir(account)) is not None
    start = [] if is_running else [up_command(account, "--detach")]
    return [*start, f"{deploy} --bootstrap"]


def commands_after_up(project: Project, account: str) -> list[str]:
    """Return the commands that deploy the first environment of an account; none if it has no environment."""
    for name in environment_names(project):
        with contextlib.suppress(InvalidFilesError):
            workspace = load_workspace(project, name)
            if workspace.spec.account == account and workspace.spec.endpoints:
                build = [workspace.lock_command] if unbuilt(workspace) else []
                return [*build, *deploy_commands(project, workspace)]
    return []


def cloud_to_read(
    project: Project, spec: EnvironmentSpec, *, beside: EnvironmentSpec, cloud: Cloud, profile: str | None
) -> Cloud:
    """Return read access to the cloud of an environment; `cloud` is that of the environment `beside`."""
    subject = f"environment {spec.name!r}"
    local = find_cloud(project, spec.account, spec.region, subject=subject, profile=profile)
    if local is not None:
        return local
    return readable_cloud(spec, profile=profile, at_hand=None if is_local(beside.account) else cloud)


def has_registry(spec: EnvironmentSpec) -> bool:
    """Return True if an environment's custom images are in ECR.

    Those of a local cloud stay in the Docker engine of this machine.
    """
    return not is_local(spec.account)


def stop_cloud(state_dir: Path) -> bool:
    """Stop a local cloud; return whether it was running."""
    require_local_cloud()
    return bool(_part("stop")(state_dir=state_dir))


def forget_cloud(state_dir: Path) -> bool:
    """Remove the state of a stopped local cloud; return whether there was any."""
    require_local_cloud()
    return bool(_part("forget")(state_dir=state_dir))


def cloud_settings(*, minute_s: float, **settings: Any) -> Any:
    """Return settings of a local cloud; one minute of waiting on AWS takes `minute_s` seconds here."""
    require_local_cloud()
    return _part("CloudSettings")(**settings, time_scale=_part("TimeScale")(minute_s=minute_s))


def start_detached(settings: Any, *, port: int | None) -> LocalCloudAddress:
    """Start a local cloud in the background; return once it listens."""
    return cast("LocalCloudAddress", _part("start_detached")(settings, port=port))


def run_foreground(settings: Any, *, port: int | None, on_ready: Callable[[LocalCloudAddress], None]) -> None:
    """Run a local cloud in this process until it is interrupted."""
    _part("run_foreground")(settings, port=port, on_ready=on_ready)


def profile_path(state_dir: Path) -> Path:
    """Return the AWS profile file of a local cloud."""
    return Path(_part("profile_path")(state_dir))


def read_inventory(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return every resource in the running local cloud that these environment variables select."""
    return list(_part("read_inventory")(variables))


def capabilities() -> LocalCloudCapabilities:
    """Return what the local cloud supports."""
    require_local_cloud()
    return cast("LocalCloudCapabilities", _part("capabilities")())
