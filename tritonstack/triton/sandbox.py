"""Run a command in Linux namespaces that end with this process, and open connections to it.

The namespaces (user, network, process, mount, IPC) are created by util-linux's `unshare` without privileges.
In them, the server uses SageMaker's port and model path, sees only its model and what it needs to run
(private_root.py), has no network and is not reachable from outside, and all its processes and shared memory
end with it. If the system forbids namespaces, the server runs on the host only if EXPOSE allows it; killing
it there can leave a folder /tmp/python_env_* behind.

supervisor.py is the first process inside. A socket pair detects the end of this process, because the kernel's
parent-death signal depends on the thread that started the child.
"""

from __future__ import annotations

import contextlib
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

from tritonstack.triton.errors import ExposureRejectedError, TritonRequestError, TritonUnreachableError
from tritonstack.triton.inside.supervisor import CONNECT, MAX_MESSAGE, MEASURE, PROBE, STOP, WEIGH, Order

SUPERVISOR = Path(__file__).parent / "inside" / "supervisor.py"
NAMESPACES = ("--user", "--map-root-user", "--net", "--pid", "--mount", "--ipc")
UNSHARE = ("unshare", *NAMESPACES, "--fork", "--kill-child")
EXPOSE = "TRITONSTACK_EXPOSE"
"""If 1, servers may listen on every network interface of this machine."""
ANSWER_S = 60.0
"""Longest time for an answer of a supervisor; the answer would belong to no later question."""

logger = logging.getLogger(__name__)


@functools.cache
def why_no_namespaces() -> str | None:
    """Return None if this system allows namespaces, else the reason; found by creating some."""
    if not shutil.which("unshare"):
        return "the command unshare (util-linux) is not installed"
    command = [*UNSHARE, sys.executable, "-I", "-S", str(SUPERVISOR), PROBE]
    probe = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if probe.returncode == 0 else probe.stderr.strip().rpartition("\n")[2]


def require_namespaces_or_consent() -> None:
    """Raise ExposureRejectedError if a server would be exposed and EXPOSE does not allow it."""
    reason = why_no_namespaces()
    if reason is not None:
        require_consent(
            f"this system forbids user namespaces ({reason}), so Triton would listen on every network "
            "interface of this machine, without authentication",
            remedy="allow user namespaces (Ubuntu: `sudo sysctl -w "
            "kernel.apparmor_restrict_unprivileged_userns=0`)",
        )


def require_consent(message: str, *, remedy: str) -> None:
    """Raise ExposureRejectedError unless EXPOSE allows servers on every interface."""
    if os.environ.get(EXPOSE) != "1":
        raise ExposureRejectedError(
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
    """A supervised command, controlled over one channel; closing the channel ends the command."""

    def __init__(self, *, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._channel = channel
        self._channel.settimeout(ANSWER_S)
        self._lock = threading.Lock()
        """Held from a question to its answer. Neither `stop` nor `kill` waits for it."""

    @classmethod
    def start(cls, *, order: Order, log: Path) -> Sandbox:
        """Start the order, in namespaces unless it has no mounts. Its output goes to the log."""
        parent_socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        isolation: Sequence[str] = UNSHARE if order["mounts"] is not None else ()
        command = [*isolation, sys.executable, "-I", "-S", str(SUPERVISOR), str(child_socket.fileno())]
        with child_socket, log.open("wb", buffering=0) as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[child_socket.fileno()],
                env={"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)},
                start_new_session=True,
            )
        parent_socket.send(json.dumps(order).encode())
        return cls(process=process, channel=parent_socket)

    @property
    def exit_status(self) -> int | None:
        """Return None while anything in the sandbox runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Return the first process, the ancestor of everything in the sandbox."""
        return self._process.pid

    def connect(self) -> socket.socket:
        """Open a new connection to the command's port."""
        with self._lock:
            try:
                self._channel.send(CONNECT)
                answer, descriptors, _, _ = socket.recv_fds(
                    self._channel, MAX_MESSAGE, 1, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                self._hang_up()
                raise TritonUnreachableError(f"the Triton server has ended: {error}") from error
        if not descriptors:
            reason = answer.decode() or "its sandbox has ended"
            raise TritonUnreachableError(f"the Triton server cannot be reached: {reason}")
        connection = socket.socket(fileno=descriptors[0])
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def shared_memory_held(self) -> int:
        """Return the bytes of shared memory that the command and its children use."""
        return self._measured(MEASURE)

    def memory_held(self) -> int:
        """Return the bytes of memory that the command and its children use, shared memory included."""
        return self._measured(WEIGH)

    def _measured(self, question: bytes) -> int:
        with self._lock:
            try:
                self._channel.send(question)
                return int(self._channel.recv(MAX_MESSAGE))
            except (OSError, ValueError) as error:
                self._hang_up()
                raise TritonRequestError("the Triton server has ended") from error

    def stop(self, *, grace_s: float) -> int:
        """Stop the command, by force after the grace period; return its exit status when nothing remains."""
        try:
            self._channel.send(STOP)
        except OSError:
            logger.debug("the sandbox has already ended")
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return self.kill()
        finally:
            self._hang_up()

    def kill(self) -> int:
        """Kill everything in the sandbox."""
        self._hang_up()
        return self._process.wait(30)

    def _hang_up(self) -> None:
        """End the supervisor, and a wait for its answer: to close a socket in use does neither."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()
