"""Start the local cloud detached or in the foreground, find it again, and stop it.

A cloud belongs to a folder. `cloud.json` there holds its address, written once it answers requests;
`cloud.log` is its log; `cloud.lock` is locked while it runs, so that two clouds cannot share the folder. Its
persistent state is in `state` (state/) and is kept until `tritonstack down --forget`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO

from tritonstack.base.errors import TritonstackError, UsageError
from tritonstack_local.access.profile import remove_profile, write_profile
from tritonstack_local.lifetime import die_with_parent, is_running, start_ticks
from tritonstack_local.settings import CloudSettings
from tritonstack_local.signatures.keys import CloudSecret, forget_secret
from tritonstack_local.state.errors import NotKeptError
from tritonstack_local.state.location import forget as forget_state

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 90.0
_POLL_S = 0.05
_SIGNAL_LOOK_S = 0.5
_LOCK = "cloud.lock"
_LOOKED_AT_S = 0.5
"""Longest time that a check for a running cloud holds its lock."""
_LOG_TAIL_LINES = 30
_LEAST_ROOM = 2**20
"""Free disk space that a cloud needs to start, in bytes."""


class CloudRunningError(UsageError):
    """Another cloud uses this state folder."""

    code = "TS609"


class PortInUseError(UsageError):
    """The requested port is in use."""

    code = "TS610"


class CloudFailedError(TritonstackError):
    """The cloud did not start or stop."""

    code = "TS611"


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
            raise CloudFailedError(
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


def start_detached(settings: CloudSettings, *, port: int | None = None) -> CloudAddress:
    """Start a cloud that outlives this process; return when it answers requests."""
    _check_account(settings.account_id)
    settings = settings.resolved()
    state_dir = settings.state_dir
    running = read_address(state_dir)
    if running is not None:
        raise _already_running(state_dir, running)
    _free_port(port).close()
    state_dir.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(state_dir).free < _LEAST_ROOM:
        # Its log is on the same disk, so it could not report this itself.
        raise NotKeptError(state_dir, os.strerror(errno.ENOSPC))
    command = [
        sys.executable,
        "-m",
        "tritonstack_local",
        "--settings",
        settings.to_json(),
        "--port",
        str(port or 0),
    ]
    with log_path(state_dir).open("wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=state_dir,
            env=_isolated(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    return _await_start(child, state_dir)


def run_foreground(
    settings: CloudSettings,
    *,
    port: int | None = None,
    on_ready: Callable[[CloudAddress], None] = lambda _: None,
) -> None:
    """Run the cloud until a signal ends it; so does the end of the parent process."""
    die_with_parent()
    be_the_cloud(settings, port=port, on_ready=on_ready)


def be_the_cloud(
    settings: CloudSettings,
    *,
    port: int | None = None,
    on_ready: Callable[[CloudAddress], None] = lambda _: None,
) -> None:
    """Serve in this process until SIGINT or SIGTERM."""
    _check_account(settings.account_id)
    settings = settings.resolved()
    isolated = _isolated(os.environ)
    os.environ.clear()
    os.environ.update(isolated)
    # Imported here: finding or stopping a cloud does not need moto.
    from tritonstack_local.server import LocalCloud  # noqa: PLC0415

    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with _locked(settings.state_dir):
        cloud = LocalCloud(settings=settings, listener=_free_port(port))
        try:
            address = CloudAddress(
                cloud.endpoint_url,
                cloud.port,
                os.getpid(),
                settings.account_id,
                settings.region,
                cloud.notices,
                cloud.secret,
            )
            _write_address(settings.state_dir, address)
            on_ready(address)
            # Wakes up regularly: the kernel may deliver a signal to another thread, but this one handles it.
            while not ended.wait(_SIGNAL_LOOK_S):
                continue
        finally:
            _remove_address(settings.state_dir)
            cloud.close()


def stop(*, state_dir: Path) -> bool:
    """Stop the cloud of a state folder and all its children; return False if none was running."""
    written = _written(state_dir)
    if written is None or not _is_held(state_dir):
        return False
    address, ticks = written
    if not is_running(address.pid, ticks):
        raise CloudFailedError(
            f"the local cloud at {address.endpoint_url} runs outside this container",
            remedy="stop it where it was started",
        )
    os.kill(address.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while is_running(address.pid, ticks):
        if time.monotonic() > deadline:
            raise CloudFailedError(
                f"the local cloud (process {address.pid}) did not stop",
                remedy=f"see {log_path(state_dir)}, or force it with `kill -9 {address.pid}`",
            )
        time.sleep(_POLL_S)
    _remove_address(state_dir)
    return True


def forget(*, state_dir: Path) -> bool:
    """Remove the persistent state of a cloud; return False if there was none."""
    with _locked(state_dir):
        forget_secret(state_dir)
        return forget_state(state_dir)


def read_address(state_dir: Path) -> CloudAddress | None:
    """Return the running cloud of a state folder; files of a killed cloud are ignored."""
    written = _written(state_dir)
    if written is None or not _is_held(state_dir):
        return None
    return replace(written[0], secret=CloudSecret.read(state_dir))


def _written(state_dir: Path) -> tuple[CloudAddress, int] | None:
    """Return the address a cloud wrote, and the start time of its process."""
    try:
        written = json.loads(_address_path(state_dir).read_text())
        ticks = written.pop("start_ticks")
        return CloudAddress(**written | {"notices": tuple(written.get("notices", ()))}), ticks
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        # Not written by this version; a running cloud would hold the lock.
        return None


def _is_held(state_dir: Path) -> bool:
    """Return whether a cloud is running: it holds the lock, which is also visible from containers."""
    try:
        with (state_dir / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def log_path(state_dir: Path) -> Path:
    """Return the log file of the cloud of a state folder."""
    return state_dir / "cloud.log"


def _address_path(state_dir: Path) -> Path:
    return state_dir / "cloud.json"


def _write_address(state_dir: Path, address: CloudAddress) -> None:
    shown = {item.name: getattr(address, item.name) for item in fields(address) if item.name != "secret"}
    whole = json.dumps(shown | {"start_ticks": start_ticks(address.pid)}, indent=1)
    write_profile(state_dir, address.environment())
    draft = state_dir / "cloud.json.new"
    draft.write_text(whole)
    draft.replace(_address_path(state_dir))


def _remove_address(state_dir: Path) -> None:
    _address_path(state_dir).unlink(missing_ok=True)
    remove_profile(state_dir)


def _check_account(account_id: str) -> None:
    if not re.fullmatch(r"\d{12}", account_id):
        raise UsageError(
            f"{account_id!r} is not an AWS account ID",
            remedy="use 12 digits, for example 000000000000",
            code="TS907",
        )


def _await_start(child: subprocess.Popen[bytes], state_dir: Path) -> CloudAddress:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        address = read_address(state_dir)
        if address is not None and address.pid == child.pid:
            # The child outlives this process; without this, Python would warn about it.
            child.returncode = 0
            return address
        if child.poll() is not None:
            break
        time.sleep(_POLL_S)
    child.kill()
    child.wait()
    path = log_path(state_dir)
    tail = "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
    raise CloudFailedError(f"the local cloud did not start:\n{tail}", remedy=f"see {path} for the full log")


@contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / _LOCK).open("w") as lock:
        deadline = time.monotonic() + _LOOKED_AT_S
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise _already_running(state_dir, read_address(state_dir))
            time.sleep(_POLL_S)
        # Left by a killed cloud; it must not be read as this cloud's address.
        _remove_address(state_dir)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _already_running(state_dir: Path, address: CloudAddress | None) -> CloudRunningError:
    where = f" at {address.endpoint_url}, as account {address.account_id}" if address else ""
    which = f" --account {address.account_id}" if address else ""
    return CloudRunningError(
        f"a local cloud is already running{where}, with its state in {state_dir}",
        remedy=f"stop it with `tritonstack down{which}`, or start another one with --account or "
        "another TRITONSTACK_HOME",
    )


def _free_port(port: int | None) -> socket.socket:
    """Return a socket bound to the port on the loopback interface, or to any free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port or 0))
    except OSError as error:
        listener.close()
        raise PortInUseError(
            f"port {port} cannot be used: {error.strerror}",
            remedy="choose another port, or omit it to use a free port",
        ) from error
    return listener


# The user's AWS profile, credentials, and settings must not affect the cloud's own calls.
_AWS_ISOLATION = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def _isolated(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if not key.startswith(("AWS_", "MOTO_"))}
    return kept | _AWS_ISOLATION
