"""Errors of a cloud's state, each with a remedy."""

from __future__ import annotations

from pathlib import Path

from tritonstack.base.errors import TritonstackError

FORGET = "`tritonstack down --forget` removes it, and the next start has nothing"


class StateDamagedError(TritonstackError):
    """The state cannot be read as it is: tritonstack_local.state.folder opens what of it is whole."""

    code = "TS612"

    def __init__(self, file: Path, fault: str) -> None:
        self.fault = f"{file.name}: {fault}"
        super().__init__(
            f"the embedded cloud's state is damaged: {file}: {fault}",
            remedy=f"put a copy of {file.parent} in its place, or let it go: {FORGET}",
        )


class ForeignStateError(TritonstackError):
    """Somebody else could have written the state, and reading it runs code."""

    code = "TS612"

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(
            f"the embedded cloud does not read the state in {path}: {fault}",
            remedy="make it your own and writable by you alone, if you know where it comes from; "
            "or name another cloud with TRITONSTACK_CLOUD",
        )


class NotKeptError(TritonstackError):
    """The state could not be written: what was asked for would not outlive the process."""

    code = "TS613"

    def __init__(self, folder: Path, fault: str) -> None:
        super().__init__(
            f"the embedded cloud cannot keep its state in {folder}: {fault}",
            remedy="make room there, or make it writable, then try again; what was kept before is whole",
        )


class StateInUseError(TritonstackError):
    """Another process holds the state."""

    code = "TS612"

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"another process uses the embedded cloud's state ({file})",
            remedy="end that process; `fuser` tells which it is",
        )


class OtherVersionError(Exception):
    """The state was written by other versions of what it consists of."""
