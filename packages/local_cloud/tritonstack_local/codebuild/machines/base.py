"""The protocol of machines that run a build's commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tritonstack_local.service.errors import ReplyError

OnLine = Callable[[str], None]
"""Receives a line of a command's output."""


@dataclass(frozen=True)
class MachineOrder:
    """The build that needs a machine."""

    build: str
    """The build's id."""
    folder: Path
    """The build's folder; everything it creates is there, and is deleted with it."""
    source: Path
    """The folder of its primary source."""
    image: str
    privileged: bool
    environment: Mapping[str, str]
    cloud_url: str


class NoMachineError(ReplyError):
    """No machine is available."""


class Machine(Protocol):
    """The machine of one build. It runs one command at a time; any thread may end it."""

    @property
    def notices(self) -> Sequence[str]:
        """Notes on what is emulated, for the build's log."""

    def inside(self, path: Path) -> str:
        """Return the path of a file in the build's folder as commands see it."""

    def share(self, path: Path, *, writable: bool = False) -> None:
        """Let every user that commands run as read, or also write, a file or folder of the build."""

    def run(self, argv: Sequence[str], *, user: str | None, on_line: OnLine) -> int:
        """Run a command and return its exit status; raise MachineGoneError if the machine ends."""

    def end(self) -> None:
        """End all its processes at once, and release it."""


StartMachine = Callable[[MachineOrder], Machine]
