"""The protocol of machines that run a build's commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tritonstack.base.errors import TritonstackError

Hear = Callable[[str], None]
"""Takes a line that a command has written."""


@dataclass(frozen=True)
class MachineOrder:
    """What a machine is wanted for."""

    build: str
    """The build's id."""
    folder: Path
    """The build's own folder: everything that it makes lies there, and goes with it."""
    image: str
    privileged: bool
    environment: Mapping[str, str]


class NoMachineError(TritonstackError):
    """No machine could be had."""


class Machine(Protocol):
    """A machine of one build's own. Its commands come one after the other; any thread may end it."""

    @property
    def notices(self) -> Sequence[str]:
        """What plays what here, for the build's log."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that the machine adds to the build's."""

    def inside(self, path: Path) -> str:
        """Say where something below the build's folder is for its commands."""

    def run(self, argv: Sequence[str], *, user: str | None, hear: Hear) -> int:
        """Run a command to its end and return its exit status; MachineGoneError if the machine ends first."""

    def end(self) -> None:
        """End everything that runs on it, at once, and give it back."""


StartMachine = Callable[[MachineOrder], Machine]
