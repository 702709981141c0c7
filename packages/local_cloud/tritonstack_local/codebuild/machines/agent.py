"""The first process of a build: prepare its namespaces, run its commands, and end all its processes.

It runs as a script (`python -I -S agent.py FOLDER-OF-SUPERVISOR CHANNEL_FD`), in new namespaces if possible:
then it hands the listening sockets of the build's ports to the cloud (network.py). The first line on standard
input is the configuration, each later line a command; the end of standard input means that the build or its
cloud has ended, and ends everything. As this process is the first of its PID namespace, the kernel then ends
all others in it; without a namespace, all descendants are found and killed, in any group or session.

Output of commands is copied to standard output as it arrives. After the last line of a command follow its
secret end marker and its exit status.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from tritonstack.triton.inside import private_root, supervisor
else:
    sys.path.append(sys.argv[1])
    import private_root
    import supervisor

_PR_SET_CHILD_SUBREAPER = 36


class BuildWorld(TypedDict):
    """The configuration, sent first."""

    mounts: list[private_root.Mount] | None
    """What the build sees of this machine; None without namespaces: everything."""
    ports: list[int]
    """Ports of the loopback interface that the cloud serves."""
    environment: dict[str, str]


class Command(TypedDict):
    """One command."""

    argv: list[str]
    mark: str


class _Agent:
    def __init__(self, world: BuildWorld) -> None:
        self._environment = world["environment"]
        self._command: tuple[int, str] | None = None
        """The running command and its end marker."""

    def start(self, command: Command) -> None:
        try:
            process = os.posix_spawn(
                command["argv"][0],
                command["argv"],
                self._environment,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setpgroup=0,
                setsigdef=[signal.SIGPIPE],  # ignored by Python; commands need the default
                setsigmask=[],
            )
        except OSError as error:
            print(f"{command['argv'][0]}: {error.strerror}", flush=True)
            _tell(command["mark"], 127)
            return
        self._command = (process, command["mark"])

    def reap(self) -> None:
        """Reap all finished children, including orphans."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if process == 0:
                    return
                if self._command is not None and process == self._command[0]:
                    code = os.waitstatus_to_exitcode(status)
                    _tell(self._command[1], 128 - code if code < 0 else code)
                    self._command = None


def main() -> None:
    """Run as the first process of a build."""
    lines = _Lines()
    world: BuildWorld = json.loads(lines.first())
    channel = socket.socket(fileno=int(sys.argv[2]))
    channel.set_inheritable(False)
    if world["mounts"] is not None:
        supervisor.raise_loopback()
        with channel:
            listeners = [socket.create_server(("127.0.0.1", port)) for port in world["ports"]]
            socket.send_fds(channel, [b"l"], [listener.fileno() for listener in listeners])
        for listener in listeners:
            listener.close()
        private_root.enter(world["mounts"], nests=True)
    os.umask(0o022)  # the image's, not the cloud's
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    agent, wakeup = _Agent(world), supervisor.wake_on_signals()
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while True:
            for line in lines.taken():
                agent.start(json.loads(line))
            for key, _ in selector.select():
                if key.fileobj is wakeup:
                    wakeup.recv(64)
                    agent.reap()
                elif not lines.read():
                    _end_descendants()
                    return


class _Lines:
    """Complete lines of standard input."""

    def __init__(self) -> None:
        self._held = b""

    def first(self) -> bytes:
        while b"\n" not in self._held:
            if not self.read():
                sys.exit(0)
        line, _, self._held = self._held.partition(b"\n")
        return line

    def read(self) -> bool:
        """Read available input; return False at the end."""
        data = os.read(sys.stdin.fileno(), 1 << 16)
        self._held += data
        return bool(data)

    def taken(self) -> Iterator[bytes]:
        while b"\n" in self._held:
            line, _, self._held = self._held.partition(b"\n")
            yield line


def _tell(mark: str, status: int) -> None:
    """Write the marker on its own line, even after an unfinished line."""
    os.write(sys.stdout.fileno(), f"\n{mark} {status}\n".encode())


def _end_descendants() -> None:
    """Kill all processes; without a namespace, repeat until none is left."""
    if os.getpid() == 1:
        return
    while processes := list(_descendants()):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _descendants() -> Iterator[int]:
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdecimal()}
    family = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
        yield from more


def _parent(process: str) -> int:
    """Return the parent of a process; 0 if it is gone or a zombie."""
    try:
        with open(f"/proc/{process}/stat") as stat:
            state, parent = stat.read().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state == "Z" else int(parent)


if __name__ == "__main__":
    os.chdir("/")
    main()
