"""The files in a cloud's folder: address, lock, log, AWS profile, and state.

`cloud.json` holds the cloud's address, written once it answers requests; `cloud.log` is its log; `cloud.lock`
is locked while it runs, so that two clouds cannot share the folder. Its persistent state is in `state`
(state/) and is kept until `tritonstack down --forget`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tritonstack.base.error_kinds import LocalCloudError
from tritonstack.base.files import read_json
from tritonstack_local.access.keys import CloudSecret, write_private
from tritonstack_local.state.folder import check_owner

LOCK = "cloud.lock"
LOG_BYTES = 8 << 20
"""Size of `cloud.log`; two older files are kept."""


def private_folder(folder: Path) -> None:
    """Create a cloud's folder for its owner only, or make it so.

    Everything in it depends on that: builds keep credentials there, and endpoints their models. Another
    user's folder, or one with another user's files, is rejected.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(folder, may_be_open=True)
    folder.chmod(0o700)  # of an earlier version, or copied
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):  # a running cloud has just removed it
            check_owner(entry, may_be_open=True)


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in kernel ticks; None if it does not exist or is dead.

    An id alone does not identify a process: ids are reused.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name, in parentheses, may contain blanks and parentheses.
    columns = stat.rpartition(")")[2].split()
    state, ticks = columns[0], int(columns[19])
    return None if state in {"Z", "X"} else ticks


def is_running(pid: int, ticks: int | None) -> bool:
    """Return whether the process that started at `ticks` is alive."""
    return ticks is not None and start_ticks(pid) == ticks


_SETTINGS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "region": "AWS_REGION",
    "endpoint_url": "AWS_ENDPOINT_URL",
}


def profile_path(folder: Path) -> Path:
    """Return the profile file of a cloud's folder."""
    return folder / "aws-profile"


def write_profile(folder: Path, variables: Mapping[str, str]) -> None:
    """Write the default profile; the file is both AWS config file and credentials file."""
    lines = [f"{setting} = {variables[name]}" for setting, name in _SETTINGS.items()]
    write_private(profile_path(folder), "\n".join(["[default]", *lines, ""]))


def remove_profile(folder: Path) -> None:
    """Remove the file: another program may use the port after the cloud ends."""
    profile_path(folder).unlink(missing_ok=True)


_ROOM = "state"


def state_folder(cloud_folder: Path) -> Path:
    """The folder of a cloud's state; everything else in the cloud's folder is temporary."""
    return cloud_folder / _ROOM


def forget(cloud_folder: Path) -> bool:
    """Remove a cloud's state and its copies; return whether there were any."""
    rooms = [path for path in cloud_folder.glob(f"{_ROOM}*") if path.is_dir()]
    for path in rooms:
        shutil.rmtree(path)
    return bool(rooms)


@dataclass(frozen=True)
class CloudAddress:
    """The address of a running cloud, its account, and its region."""

    endpoint_url: str
    port: int
    pid: int
    account_id: str
    region: str
    notices: tuple[str, ...] = ()
    """Messages about its start: what was restored and what was lost."""
    secret: CloudSecret | None = field(default=None, repr=False, compare=False)
    """The secret its access keys derive from; None for clouds of versions that verified no signatures."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables that direct AWS tools to this cloud only."""
        if self.secret is None:
            raise LocalCloudError(
                f"the local cloud at {self.endpoint_url} was started by an older version",
                remedy="run `tritonstack down`, then `tritonstack up --detach`",
            )
        key = self.secret.account_key(self.account_id)
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": key.key_id,
            "AWS_SECRET_ACCESS_KEY": key.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DEFAULT_ACCOUNT": self.account_id,
            "CDK_DEFAULT_REGION": self.region,
        }


def read_address(state_dir: Path) -> CloudAddress | None:
    """Return the running cloud of a state folder; files of a killed cloud are ignored."""
    written = written_address(state_dir)
    if written is None or not is_held(state_dir):
        return None
    return replace(written[0], secret=CloudSecret.read(state_dir))


def written_address(state_dir: Path) -> tuple[CloudAddress, int] | None:
    """Return the address a cloud wrote, and the start time of its process."""
    try:
        written = read_json(_address_path(state_dir))
        ticks = written.pop("start_ticks")
        return CloudAddress(**written | {"notices": tuple(written.get("notices", ()))}), ticks
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        # Not written by this version; a running cloud would hold the lock.
        return None


def is_held(state_dir: Path) -> bool:
    """Return whether a cloud is running: it holds the lock, which is also visible from containers."""
    try:
        with (state_dir / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def log_path(state_dir: Path) -> Path:
    """Return the log file of the cloud of a state folder."""
    return state_dir / "cloud.log"


class CloudLog(RotatingFileHandler):
    """Writes the log; what the process prints follows into each new file."""

    def doRollover(self) -> None:  # noqa: N802 - the base class's own name
        """Begin a new file."""
        super().doRollover()
        for descriptor in (1, 2):
            with Path(self.baseFilename).open("ab") as file:
                os.dup2(file.fileno(), descriptor)


def _address_path(state_dir: Path) -> Path:
    return state_dir / "cloud.json"


def write_address(state_dir: Path, address: CloudAddress) -> None:
    """Write the address and the AWS profile of a running cloud."""
    shown = {item.name: getattr(address, item.name) for item in fields(address) if item.name != "secret"}
    whole = json.dumps(shown | {"start_ticks": start_ticks(address.pid)}, indent=1)
    write_profile(state_dir, address.environment())
    draft = state_dir / "cloud.json.new"
    draft.write_text(whole)
    draft.replace(_address_path(state_dir))


def remove_address(state_dir: Path) -> None:
    """Remove the address and the AWS profile: another program may use the port now."""
    _address_path(state_dir).unlink(missing_ok=True)
    remove_profile(state_dir)
