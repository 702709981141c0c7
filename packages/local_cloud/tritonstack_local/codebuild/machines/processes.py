"""Run builds as processes of this machine, in their own namespaces (see agent.py).

A build sees its own folder, this machine's Python and an empty home where the image has them, and programs,
read-only. It reaches its cloud and the hosts that it needs (network.py). Its processes,
shared memory, and mounts end with it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tritonstack.base.errors import UsageError
from tritonstack.base.paths import MARKER, find_project
from tritonstack.triton import TritonNotFoundError
from tritonstack.triton.errors import ExposureRejectedError
from tritonstack.triton.inside.private_root import Mount, shown
from tritonstack.triton.installation import find_embedded
from tritonstack.triton.sandbox import (
    EXPOSE,
    SUPERVISOR,
    UNSHARE,
    require_namespaces_or_consent,
    why_no_namespaces,
)
from tritonstack_local.codebuild.machines.base import MachineOrder, NoMachineError, OnLine, StartMachine
from tritonstack_local.codebuild.machines.network import (
    PIP_CONFIGURATIONS,
    BuildNetwork,
    named_remotes,
    package_indexes,
)
from tritonstack_local.codebuild.records import MachineGoneError

_MANAGERS = ("asdf", "goenv", "jenv", "mise", "nodenv", "pyenv", "rbenv")
"""Programs in a folder `shims` of these start others beside it."""
_SETTINGS = (*PIP_CONFIGURATIONS, Path("/etc/gitconfig"))


def writable(source: Path, target: str) -> Mount:
    """Return a mount that the build can write to."""
    return Mount(source=str(source), target=target, writable=True)


def program_mounts(*, server_home: Path, indexes: Iterable[str]) -> list[Mount]:
    """Return the mounts of this Python, the server's libraries, the programs on PATH, and local indexes."""
    folders = [Path(sys.prefix), *_outside(server_home), *_SETTINGS, *_local_indexes(indexes)]
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        folders += _program_folders(Path(entry))
    return [shown(folder) for folder in dict.fromkeys(folders) if folder.is_absolute()]


def permitted(mounts: Iterable[Mount], *, state: Path) -> list[Mount]:
    """Return the mounts that the cloud's user may read and that show no home, project, or state as a whole.

    `state` is a folder of the cloud's state.
    """
    private = [Path("/"), Path.home(), state]
    with contextlib.suppress(UsageError):
        private.append(find_project(Path.cwd()).root)
    closed = {os.path.realpath(path) for path in private}
    return [
        mount
        for mount in mounts
        if os.access(mount["source"], os.R_OK)
        and not os.path.exists(os.path.join(mount["source"], MARKER))
        and not any(_holds(os.path.realpath(mount["source"]), path) for path in closed)
    ]


def _holds(folder: str, path: str) -> bool:
    return os.path.commonpath((folder, path)) == folder


def _local_indexes(indexes: Iterable[str]) -> Iterator[Path]:
    for index in indexes:
        with contextlib.suppress(ValueError):
            parts = urlsplit(index)
            if parts.scheme in ("", "file"):
                yield Path(parts.path)


def _outside(server_home: Path) -> Iterator[Path]:
    try:
        yield from find_embedded(home=server_home).outside
    except TritonNotFoundError:
        return


def _program_folders(folder: Path) -> Iterator[Path]:
    """Yield a folder of PATH, and what its programs need beside it; never all of a home's `.local`."""
    parent = folder.parent
    whole = (
        (folder.name == ".bin" and parent.name == "node_modules")
        or (folder.name == "shims" and parent.name.lstrip(".") in _MANAGERS)
        or any(os.path.exists(parent / name) for name in ("pyvenv.cfg", "conda-meta"))
    )
    yield parent if whole else folder
    yield parent / "lib" / "node_modules"
    # `tritonstack setup` links the CDK CLI.
    cdk = Path(os.path.realpath(folder / "cdk"))
    if os.path.exists(cdk):
        yield from (outer for outer in cdk.parents if outer.name == "node_modules")


PYTHON = "/opt/builder"
HOME = "/home/builder"
STATE = f"{HOME}/state"


AGENT = Path(__file__).with_name("agent.py")
_LONGEST_LINE = 1 << 16
_GRACE_S = 10


class ProcessMachine:
    """Runs commands through the agent of one build; `server_home` replaces the image's Triton."""

    def __init__(self, order: MachineOrder, *, server_home: Path) -> None:
        try:
            require_namespaces_or_consent()
        except ExposureRejectedError as error:
            raise NoMachineError(f"{error.message}; {error.remedy}") from error
        why_not = why_no_namespaces()
        variables = {
            # This machine's PATH. No other variable of the cloud is passed on.
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "TRITONSTACK_HOME": STATE,
            **{name: os.environ[name] for name in (EXPOSE,) if name in os.environ},
            **order.environment,
        }
        # The build's own variables may name hosts, but no folder, port, or cloud of this machine.
        indexes = list(package_indexes(os.environ))
        self._network = BuildNetwork(
            cloud_url=order.cloud_url,
            of_machine=indexes,
            of_build=[*package_indexes(variables), *named_remotes(order.source, variables)],
        )
        self.notices: Sequence[str] = _notices(order, why_not, self._network.hosts)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [
                *(() if why_not else UNSHARE),
                *(sys.executable, "-I", "-S", str(AGENT), str(SUPERVISOR.parent)),
                str(self._network.agents_end.fileno()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[self._network.agents_end.fileno()],
            env={"LANG": "C.UTF-8", "PATH": os.defpath},
            start_new_session=True,
        )
        self._network.start()
        mounts = _mounts(order.folder, server_home=server_home, indexes=indexes)
        self._send(
            {
                "mounts": None if why_not else mounts,
                "ports": self._network.ports,
                "environment": {**({} if why_not else self._network.variables), **variables},
            }
        )

    def inside(self, path: Path) -> str:
        """Return the path unchanged."""
        return str(path)

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Do nothing: all commands run as the cloud's user."""

    def run(self, argv: Sequence[str], *, user: str | None, on_line: OnLine) -> int:
        """Run a command as the cloud's user, whatever user it names."""
        del user
        mark = secrets.token_hex(16)
        self._send({"argv": list(argv), "mark": mark})
        assert self._process.stdout is not None  # noqa: S101 - PIPE was asked for
        blank = False
        while raw := self._process.stdout.readline(_LONGEST_LINE):
            line = raw.decode(errors="replace").rstrip("\r\n")
            if line.startswith(mark):
                return int(line.removeprefix(mark))
            if blank:  # the line was complete
                on_line("")
            blank = not line
            if line:
                on_line(line)
        raise MachineGoneError("the build's processes have ended")

    def end(self) -> None:
        """End every process; the agent does so when its standard input closes."""
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
            self._process.stdin.close()
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._network.close()

    def _send(self, message: Mapping[str, object]) -> None:
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
            try:
                self._process.stdin.write(json.dumps(message).encode() + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:
                raise MachineGoneError("the build's processes have ended") from error


def process_starter(*, server_home: Path) -> StartMachine:
    """Start builds as processes; `server_home` replaces the image's Triton."""
    return functools.partial(ProcessMachine, server_home=server_home)


def _mounts(folder: Path, *, server_home: Path, indexes: Iterable[str]) -> list[Mount]:
    """Return what a build with a folder sees: programs, this Python and an empty home as in the image."""
    home = folder / "home-of-builder"
    (home / "state" / "server").mkdir(parents=True)
    programs = [*program_mounts(server_home=server_home, indexes=indexes), shown(sys.prefix, PYTHON)]
    if server_home.is_dir():
        programs.append(shown(server_home, f"{STATE}/server"))
    return [
        *permitted(programs, state=folder.parent),
        writable(home, HOME),
        writable(folder, str(folder)),
    ]


def _notices(order: MachineOrder, why_not: str | None, hosts: Sequence[str]) -> list[str]:
    notices = [
        f"This machine emulates image {order.image} with the programs on PATH.",
        "All users of the image map to the user who runs the local cloud.",
    ]
    if why_not:
        notices.append(
            f"This system forbids namespaces ({why_not}): the build can use the files and the network of "
            "this machine, and no folder of the image can be shown."
        )
    else:
        notices.append(f"This cloud's Python ({sys.prefix}) is shown as {PYTHON}, an empty home as {HOME}.")
        notices.append(f"The build reaches this cloud and {', '.join(hosts)}.")
    if order.privileged:
        notices.append("The project is privileged: there is no Docker daemon in this build.")
    return notices
