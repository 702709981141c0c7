"""Starts a command in a world of its own that ends with this process, and hands out connections to it.

The world is a set of Linux namespaces (user, network, process, mount, IPC), made by util-linux's `unshare`
without special rights: the server in it can keep SageMaker's port, finds its model where SageMaker puts it,
reaches no network, is reached from nowhere, and everything it started or left in shared memory vanishes
with it. Where a system forbids them, the server runs on the host only if EXPOSE allows it; one that had to
be killed there can leave a folder /tmp/python_env_* behind.

Inside, supervisor.py is the first process. Its lifeline is a socket pair rather than the kernel's
parent-death signal, which is bound to the thread that started the child.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tritonstack.runtime.errors import ExposureRefusedError, TritonRequestError, TritonUnreachableError
from tritonstack.runtime.supervisor import CONNECT, MAX_MESSAGE, MEASURE, STOP, WEIGH, Order

SUPERVISOR = Path(__file__).with_name("supervisor.py")
NAMESPACES = ("--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc")
UNSHARE = ("unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc")
EXPOSE = "TRITONSTACK_EXPOSE"
"""Set to 1, this variable allows servers that listen on every network interface of this machine."""

logger = logging.getLogger(__name__)


@functools.cache
def why_no_namespaces() -> str | None:
    """None where this system lets us make namespaces, else its reason. Found out by making some."""
    if not shutil.which("unshare"):
        return "the command unshare (util-linux) is not installed"
    if not Path("/opt").is_dir():
        return "there is no folder /opt to show the model in"
    probe = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else probe.stderr.strip()


def require_namespaces_or_consent() -> None:
    """Raise ExposureRefusedError if a server would be exposed and EXPOSE does not allow it."""
    reason = why_no_namespaces()
    if reason is not None:
        require_consent(
            f"this system forbids user namespaces ({reason}), so Triton would listen on every network "
            "interface of this machine, without authentication",
            remedy="allow user namespaces (Ubuntu: `sudo sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0`)",
        )


def require_consent(message: str, *, remedy: str) -> None:
    """Raise ExposureRefusedError unless EXPOSE allows servers on every interface."""
    if os.environ.get(EXPOSE) != "1":
        raise ExposureRefusedError(
            message,
            remedy=f"{remedy}, or accept the exposure with `--expose` of `tritonstack up` and "
            f"`tritonstack build`, or {EXPOSE}=1",
        )


def warn_of_exposure(reason: str, port: int) -> None:
    """Log that a server listens on every interface."""
    logger.warning(
        "this system forbids user namespaces (%s): Triton listens on port %d of every network interface of "
        "this machine, and its models can reach the network",
        reason,
        port,
    )


class Sandbox:
    """A supervised command. Connections and orders go over one channel, whose end ends the command."""

    def __init__(self, *, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._lock = threading.Lock()

    @classmethod
    def start(cls, *, order: Order, log: Path) -> Sandbox:
        """Start the order, in namespaces unless it has no mounts. Its output goes to the log."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        isolation: Sequence[str] = UNSHARE if order["mounts"] is not None else ()
        command = [*isolation, sys.executable, "-I", "-S", str(SUPERVISOR), str(theirs.fileno())]
        with theirs, log.open("wb", buffering=0) as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                env={"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
        ours.send(json.dumps(order).encode())
        return cls(process=process, channel=ours)

    @property
    def exit_status(self) -> int | None:
        """None while anything in the sandbox runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """The first process: everything that runs in the sandbox descends from it."""
        return self._process.pid

    def connect(self) -> socket.socket:
        """A new connection to the command's port."""
        with self._lock:
            try:
                self._channel.send(CONNECT)
                answer, descriptors, _, _ = socket.recv_fds(
                    self._channel, MAX_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                raise TritonUnreachableError(f"the Triton server is gone: {error}") from error
        if not descriptors:
            reason = answer.decode() or "its sandbox has ended"
            raise TritonUnreachableError(f"the Triton server cannot be reached: {reason}")
        connection = socket.socket(fileno=descriptors[0])
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def shared_memory_held(self) -> int:
        """The bytes of shared memory that the command and its children hold."""
        return self._measured(MEASURE)

    def memory_held(self) -> int:
        """The bytes of memory that the command and its children hold, shared memory included."""
        return self._measured(WEIGH)

    def _measured(self, question: bytes) -> int:
        with self._lock:
            try:
                self._channel.send(question)
                return int(self._channel.recv(MAX_MESSAGE))
            except (OSError, ValueError) as error:
                raise TritonRequestError("the Triton server is gone") from error

    def stop(self, *, grace_s: float) -> int:
        """Ask the command to end, then make it; returns its exit status when nothing of it is left."""
        with self._lock:
            try:
                self._channel.send(STOP)
            except OSError:
                logger.debug("the sandbox has already ended")
            try:
                return self._process.wait(grace_s)
            except subprocess.TimeoutExpired:
                return self.kill()
            finally:
                self._channel.close()

    def kill(self) -> int:
        """End everything in the sandbox at once."""
        self._channel.close()
        return self._process.wait(30)
