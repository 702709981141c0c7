"""Run builds as processes of this machine, in their own namespaces where the kernel allows (see agent.py).

This machine's Python and an empty home are mounted where the image has them. Builds use the machine's
network, to reach this cloud; their processes, shared memory, and mounts are separate and end with them.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonstack.runtime.sandbox import EXPOSE, SUPERVISOR, why_no_namespaces
from tritonstack_local.codebuild.errors import MachineGoneError
from tritonstack_local.codebuild.machines.base import MachineOrder, OnLine, StartMachine

PYTHON = "/opt/builder"
HOME = "/home/builder"
STATE = f"{HOME}/state"


@dataclass(frozen=True)
class EmulatedImage:
    """Mounted folders and environment variables that replace an image's."""

    folders: Mapping[str, Path]
    variables: Mapping[str, str]
    description: str


def emulated_image(*, folder: Path, server_home: Path) -> EmulatedImage:
    """Return the emulated image of a build with the folder `folder`."""
    home = folder / "home-of-builder"
    (home / "state" / "server").mkdir(parents=True)
    folders = {PYTHON: Path(sys.prefix), HOME: home}
    if server_home.is_dir():
        folders[f"{STATE}/server"] = server_home
    return EmulatedImage(
        folders=folders,
        variables={
            # This machine's PATH. No other variable of the cloud is passed on.
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "TRITONSTACK_HOME": STATE,
            **{name: os.environ[name] for name in (EXPOSE,) if name in os.environ},
        },
        description=f"this cloud's Python ({sys.prefix}) is shown as {PYTHON}, an empty home as {HOME}",
    )


AGENT = Path(__file__).with_name("agent.py")
_NAMESPACES = ("--user", "--map-root-user", "--pid", "--mount", "--ipc")
_UNSHARE = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc")
_LONGEST_LINE = 1 << 16
_GRACE_S = 10


class ProcessMachine:
    """Runs commands through the agent of one build."""

    def __init__(self, order: MachineOrder, emulated: EmulatedImage) -> None:
        why_not = why_no_namespaces()
        self.environment: Mapping[str, str] = emulated.variables
        self.notices: Sequence[str] = _notices(order, emulated, why_not)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [
                *(() if why_not else _UNSHARE),
                *(sys.executable, "-I", "-S", str(AGENT), str(SUPERVISOR.parent)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"LANG": "C.UTF-8", "PATH": os.defpath},
            start_new_session=True,
        )
        shown = {place: str(source) for place, source in emulated.folders.items() if _can_be_shown(place)}
        self._send(
            {
                "folders": None if why_not else shown,
                "environment": {**emulated.variables, **order.environment},
            }
        )

    def inside(self, path: Path) -> str:
        """Return the path unchanged."""
        return str(path)

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

    def start(order: MachineOrder) -> ProcessMachine:
        return ProcessMachine(order, emulated_image(folder=order.folder, server_home=server_home))

    return start


def _can_be_shown(place: str) -> bool:
    return Path("/", place.split("/")[1]).is_dir()


def _notices(order: MachineOrder, emulated: EmulatedImage, why_not: str | None) -> list[str]:
    hidden = sorted({place for place in emulated.folders if not _can_be_shown(place)})
    notices = [
        f"This machine emulates image {order.image} with the programs on PATH.",
        "All users of the image map to the user who runs the local cloud.",
    ]
    if why_not:
        notices.append(f"This system forbids namespaces ({why_not}): no folder of the image can be shown.")
    else:
        notices.append(f"Of the builder's image {emulated.description}.")
        notices += [f"{place} cannot be shown: this machine has no such top folder." for place in hidden]
    if order.privileged:
        notices.append(
            "The project is privileged: there is no Docker daemon in this build but the machine's."
        )
    return notices
