"""Stop local clouds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tritonstack.base.embedded_accounts import EMBEDDED_ACCOUNT, EMBEDDED_ACCOUNTS
from tritonstack.base.results import Internal
from tritonstack.operate.shared.local_cloud import forget_cloud, read_address, stop_cloud
from tritonstack.operate.shared.session import Session


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
