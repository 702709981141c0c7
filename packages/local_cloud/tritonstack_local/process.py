"""Start the local cloud detached or in the foreground, find it again, and stop it.

A cloud belongs to a state folder. `cloud.json` there says where it listens, written whole once it answers;
`cloud.log` is its log; `cloud.lock` is locked for as long as it lives, so that two cannot share the folder.
What it remembers lies in `state` (state/) and stays when it ends, until it is forgotten.
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
"""Whoever looks whether a cloud lives holds its lock for less than this."""
_LOG_TAIL_LINES = 30
_LEAST_ROOM = 2**20
"""Bytes on the disk without which no cloud can start."""


class CloudRunningError(UsageError):
    """Another cloud lives in this state folder."""

    code = "TS609"


class PortInUseError(UsageError):
    """The port asked for is taken."""

    code = "TS610"


class CloudFailedError(TritonstackError):
    """The cloud did not start, or did not stop."""

    code = "TS611"


@dataclass(frozen=True)
class CloudAddress:
    """Where a running cloud is, and what it was started for."""

    endpoint_url: str
    port: int
    pid: int
    account_id: str
    region: str
    notices: tuple[str, ...] = ()
    """What there is to be said about its start: what comes back, what does not."""
    secret: CloudSecret | None = field(default=None, repr=False, compare=False)
    """What its access keys are made of. None for a cloud started by a version that verified no signatures."""

    def environment(self) -> dict[str, str]:
        """Return the variables that point AWS's tools at this cloud, and at nothing else."""
        if self.secret is None:
            raise CloudFailedError(
                f"the embedded cloud at {self.endpoint_url} has no secret: an older version started it",
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
    """Start a cloud that outlives this process, and return once it answers."""
    _check_account(settings.account_id)
    settings = settings.resolved()
    state_dir = settings.state_dir
    running = read_address(state_dir)
    if running is not None:
        raise _already_running(state_dir, running)
    _free_port(port).close()
    state_dir.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(state_dir).free < _LEAST_ROOM:
        # It could not even say so: its log lies there too.
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
    """Be the cloud until a signal ends it. The death of the parent process is such a signal."""
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
    # Imported here: whoever only looks for a cloud or stops one need not load moto.
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
            # Woken now and then: the kernel may give a signal to another thread, and this one handles it.
            while not ended.wait(_SIGNAL_LOOK_S):
                continue
        finally:
            _remove_address(settings.state_dir)
            cloud.close()


def stop(*, state_dir: Path) -> bool:
    """Stop the cloud of a state folder with all its children. False if none was running."""
    written = _written(state_dir)
    if written is None or not _is_held(state_dir):
        return False
    address, ticks = written
    if not is_running(address.pid, ticks):
        raise CloudFailedError(
            f"the embedded cloud at {address.endpoint_url} runs outside of this container",
            remedy="stop it where it was started",
        )
    os.kill(address.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while is_running(address.pid, ticks):
        if time.monotonic() > deadline:
            raise CloudFailedError(
                f"the embedded cloud (process {address.pid}) does not stop",
                remedy=f"look at {log_path(state_dir)}; `kill -9 {address.pid}` ends it by force",
            )
        time.sleep(_POLL_S)
    _remove_address(state_dir)
    return True


def forget(*, state_dir: Path) -> bool:
    """Remove everything that the cloud of a state folder remembers. False if that was nothing."""
    with _locked(state_dir):
        forget_secret(state_dir)
        return forget_state(state_dir)


def read_address(state_dir: Path) -> CloudAddress | None:
    """Return the running cloud of a state folder; what a killed cloud left behind counts for nothing."""
    written = _written(state_dir)
    if written is None or not _is_held(state_dir):
        return None
    return replace(written[0], secret=CloudSecret.read(state_dir))


def _written(state_dir: Path) -> tuple[CloudAddress, int] | None:
    """Return what a cloud wrote of itself, and when its process began."""
    try:
        written = json.loads(_address_path(state_dir).read_text())
        ticks = written.pop("start_ticks")
        return CloudAddress(**written | {"notices": tuple(written.get("notices", ()))}), ticks
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        # No cloud of this version wrote that; should one run all the same, it holds the lock.
        return None


def _is_held(state_dir: Path) -> bool:
    """Whether a cloud lives: it holds the lock to its end, and from a container that is seen as well."""
    try:
        with (state_dir / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def log_path(state_dir: Path) -> Path:
    """Return where the cloud of a state folder writes its log."""
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
            f"{account_id!r} is not an AWS account id",
            remedy="give 12 digits, for example 000000000000",
            code="TS907",
        )


def _await_start(child: subprocess.Popen[bytes], state_dir: Path) -> CloudAddress:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        address = read_address(state_dir)
        if address is not None and address.pid == child.pid:
            # The child is meant to outlive this process; without this, Python would warn that it does.
            child.returncode = 0
            return address
        if child.poll() is not None:
            break
        time.sleep(_POLL_S)
    child.kill()
    child.wait()
    path = log_path(state_dir)
    tail = "\n".join(path.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
    raise CloudFailedError(f"the embedded cloud did not start:\n{tail}", remedy=f"the whole log is {path}")


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
        f"an embedded cloud is already running{where}, with its state in {state_dir}",
        remedy=f"`tritonstack down{which}` ends it; beside it can run those of other accounts (--account) "
        "and of other state folders (TRITONSTACK_HOME)",
    )


def _free_port(port: int | None) -> socket.socket:
    """Return a socket bound to the port on the loopback interface, or to a free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port or 0))
    except OSError as error:
        listener.close()
        raise PortInUseError(
            f"port {port} cannot be used: {error.strerror}",
            remedy="choose another port, or none: a free one is taken then",
        ) from error
    return listener


# The cloud is AWS to itself: no profile, credential or setting of the user's may reach its own calls.
_AWS_ISOLATION = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def _isolated(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if not key.startswith(("AWS_", "MOTO_"))}
    return kept | _AWS_ISOLATION
