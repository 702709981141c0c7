"""Start the local cloud detached or in the foreground, and stop it. A cloud belongs to a folder."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import gc
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
from pathlib import Path
from typing import IO

from tritonstack.base.error_kinds import CommandLineError, LocalCloudError
from tritonstack.base.errors import UsageError
from tritonstack.triton.sandbox import EXPOSE
from tritonstack_local.access.keys import forget_secret
from tritonstack_local.cloud_folder import (
    LOCK,
    CloudAddress,
    is_held,
    is_running,
    log_path,
    private_folder,
    read_address,
    remove_address,
    write_address,
    written_address,
)
from tritonstack_local.cloud_folder import forget as forget_state
from tritonstack_local.settings import CloudSettings
from tritonstack_local.state.folder import NotKeptError

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 90.0
_POLL_S = 0.05
_SIGNAL_POLL_S = 0.5
_ADDRESS_CHECK_S = 0.5
"""Longest time that a check for a running cloud holds its lock."""
_LOG_TAIL_LINES = 30
_SWITCH_INTERVAL_S = 0.001
"""Longest turn of a busy thread. InvokeEndpoint waits for several turns; Python's default is 5 ms."""
_COLLECT_AFTER = 20_000
"""New objects after which garbage is collected. Python's default is 700, which every few requests create."""
_LEAST_ROOM = 2**20
"""Free disk space that a cloud needs to start, in bytes."""


def start_detached(settings: CloudSettings, *, port: int | None = None) -> CloudAddress:
    """Start a cloud that outlives this process; return when it answers requests."""
    _check_account(settings.account_id)
    settings = settings.resolved()
    state_dir = settings.state_dir
    running = read_address(state_dir)
    if running is not None:
        raise _already_running(state_dir, running)
    _free_port(port).close()
    private_folder(state_dir)
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
    log_path(state_dir).unlink(missing_ok=True)
    with log_path(state_dir).open("ab") as log:
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
    serve_cloud(settings, port=port, on_ready=on_ready)


def serve_cloud(
    settings: CloudSettings,
    *,
    port: int | None = None,
    on_ready: Callable[[CloudAddress], None] = lambda _: None,
) -> None:
    """Serve in this process until SIGINT or SIGTERM."""
    _check_account(settings.account_id)
    settings = settings.resolved()
    isolated = _isolated(os.environ, expose=settings.expose)
    os.environ.clear()
    os.environ.update(isolated)
    os.umask(0o077)
    # Imported here: finding or stopping a cloud does not need moto.
    from tritonstack_local.server import LocalCloud  # noqa: PLC0415

    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()  # modules and service models live as long as the process
    gc.set_threshold(_COLLECT_AFTER)
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
            write_address(settings.state_dir, address)
            on_ready(address)
            # Wakes up regularly: the kernel may deliver a signal to another thread, but this one handles it.
            while not ended.wait(_SIGNAL_POLL_S):
                continue
        finally:
            remove_address(settings.state_dir)
            cloud.close()


def stop(*, state_dir: Path) -> bool:
    """Stop the cloud of a state folder and all its children; return False if none was running."""
    written = written_address(state_dir)
    if written is None or not is_held(state_dir):
        return False
    address, ticks = written
    if not is_running(address.pid, ticks):
        raise LocalCloudError(
            f"the local cloud at {address.endpoint_url} runs outside this container",
            remedy="stop it where it was started",
        )
    os.kill(address.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while is_running(address.pid, ticks):
        if time.monotonic() > deadline:
            raise LocalCloudError(
                f"the local cloud (process {address.pid}) did not stop",
                remedy=f"see {log_path(state_dir)}, or force it with `kill -9 {address.pid}`",
            )
        time.sleep(_POLL_S)
    remove_address(state_dir)
    return True


def forget(*, state_dir: Path) -> bool:
    """Remove the persistent state of a cloud; return False if there was none."""
    with _locked(state_dir):
        forget_secret(state_dir)
        return forget_state(state_dir)


def _check_account(account_id: str) -> None:
    if not re.fullmatch(r"\d{12}", account_id):
        raise CommandLineError(
            f"{account_id!r} is not an AWS account ID",
            remedy="use 12 digits, for example 000000000000",
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
    raise LocalCloudError(f"the local cloud did not start:\n{tail}", remedy=f"see {path} for the full log")


@contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    private_folder(state_dir)
    with (state_dir / LOCK).open("w") as lock:
        deadline = time.monotonic() + _ADDRESS_CHECK_S
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise _already_running(state_dir, read_address(state_dir))
            time.sleep(_POLL_S)
        # Left by a killed cloud; it must not be read as this cloud's address.
        remove_address(state_dir)
        yield


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _already_running(state_dir: Path, address: CloudAddress | None) -> UsageError:
    where = f" at {address.endpoint_url}, as account {address.account_id}" if address else ""
    which = f" --account {address.account_id}" if address else ""
    return UsageError(
        f"a local cloud is already running{where}, with its state in {state_dir}",
        remedy=f"stop it with `tritonstack down{which}`, or start another one with --account or "
        "another TRITONSTACK_HOME",
        code=LocalCloudError.code,
    )


def _free_port(port: int | None) -> socket.socket:
    """Return a socket bound to the port on the loopback interface, or to any free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port or 0))
    except OSError as error:
        listener.close()
        raise UsageError(
            f"port {port} cannot be used: {error.strerror}",
            remedy="choose another port, or omit it to use a free port",
            code=LocalCloudError.code,
        ) from error
    return listener


# The user's AWS profile, credentials, and settings must not affect the cloud's own calls.
_AWS_ISOLATION = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}


def _isolated(environment: Mapping[str, str], *, expose: bool = False) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if not key.startswith(("AWS_", "MOTO_"))}
    return kept | _AWS_ISOLATION | ({EXPOSE: "1"} if expose else {})


_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Make the kernel send SIGTERM to this process when its parent ends."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        # The parent ended before prctl took effect.
        os.kill(os.getpid(), signal.SIGTERM)
