"""The first process of a build: prepare its namespaces, run its commands, and end all its processes.

It runs as a script of its own (`python -I -S agent.py FOLDER-OF-SUPERVISOR`), in new namespaces where these
can be made. The first line on standard input is the world that is wanted, each later one a command; the end
of standard input means that the build is over or its cloud is gone: everything ends at once. As this process
is the first of its process namespace, the kernel then ends every other in it; without a namespace every
descendant is looked up and ended, whatever group or session it made for itself.

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
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from tritonstack.runtime import supervisor
else:
    sys.path.append(sys.argv[1])
    import supervisor

_PR_SET_CHILD_SUBREAPER = 36


class BuildWorld(TypedDict):
    """What the cloud asks for first."""

    folders: dict[str, str] | None
    """Folders of this machine by the places to show them at; None where there are no namespaces."""
    environment: dict[str, str]


class Command(TypedDict):
    """One command."""

    argv: list[str]
    mark: str


class _Agent:
    def __init__(self, world: BuildWorld) -> None:
        self._environment = world["environment"]
        self._command: tuple[int, str] | None = None
        """The process of the command that runs, and its mark."""

    def start(self, command: Command) -> None:
        try:
            process = os.posix_spawn(
                command["argv"][0],
                command["argv"],
                self._environment,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setpgroup=0,
                setsigdef=[signal.SIGPIPE],  # Python ignores it; commands must find the default again
                setsigmask=[],
            )
        except OSError as error:
            print(f"{command['argv'][0]}: {error.strerror}", flush=True)
            _tell(command["mark"], 127)
            return
        self._command = (process, command["mark"])

    def reap(self) -> None:
        """Collect every child that has ended, orphans too."""
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
    """Be the first process of a build."""
    lines = _Lines()
    world: BuildWorld = json.loads(lines.first())
    if world["folders"] is not None:
        _prepare(world["folders"])
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
    """The whole lines of standard input."""

    def __init__(self) -> None:
        self._held = b""

    def first(self) -> bytes:
        while b"\n" not in self._held:
            if not self.read():
                sys.exit(0)
        line, _, self._held = self._held.partition(b"\n")
        return line

    def read(self) -> bool:
        """Take what has come; false at the end."""
        data = os.read(sys.stdin.fileno(), 1 << 16)
        self._held += data
        return bool(data)

    def taken(self) -> Iterator[bytes]:
        while b"\n" in self._held:
            line, _, self._held = self._held.partition(b"\n")
            yield line


def _tell(mark: str, status: int) -> None:
    """On a line of its own, even where the command's last one has no end."""
    os.write(sys.stdout.fileno(), f"\n{mark} {status}\n".encode())


def _prepare(folders: dict[str, str]) -> None:
    """Show each folder at its place. Sources are opened first: another's place may be about to hide them."""
    sources = {place: os.open(source, os.O_PATH) for place, source in folders.items()}
    supervisor.mount_tmpfs(supervisor.SHARED_MEMORY)
    for top in sorted({"/" + place.split("/")[1] for place in folders}):
        supervisor.make_writable(top)
    for place, source in sorted(sources.items()):
        os.makedirs(place, exist_ok=True)
        supervisor.bind(source, place)


def _end_descendants() -> None:
    """They end as one with their namespace; without one, each is looked up until there is none."""
    if os.getpid() == 1:
        return
    while found := list(_descendants()):
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _descendants() -> Iterator[int]:
    parents = {int(name): _parent(name) for name in os.listdir("/proc") if name.isdecimal()}
    found = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
        yield from more


def _parent(process: str) -> int:
    """Return the parent of a process; 0 for one that is gone or waits to be collected."""
    try:
        with open(f"/proc/{process}/stat") as stat:
            state, parent = stat.read().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if state == "Z" else int(parent)


if __name__ == "__main__":
    os.chdir("/")
    main()
