"""Errors of a cloud's state, each with a remedy."""

from __future__ import annotations

from pathlib import Path

from tritonstack.base.error_kinds import StorageError
from tritonstack.base.errors import TritonstackError

FORGET = "remove it with `tritonstack down --forget`; the next start is empty"


class StateDamagedError(TritonstackError):
    """The state folder is damaged, in use by another process, or writable by other users. Restore a copy, or
    remove it with `tritonstack down --forget`.
    """

    code = "TS612"
    title = "Local cloud's state cannot be used"

    def __init__(self, file: Path, failure: str) -> None:
        self.failure = f"{file.name}: {failure}"
        super().__init__(
            f"the local cloud's state is damaged: {file}: {failure}",
            remedy=f"restore {file.parent} from a copy, or {FORGET}",
        )


class ForeignStateError(TritonstackError):
    """Another user could have written the state, which is unpickled and so can run code."""

    code = StateDamagedError.code

    def __init__(self, path: Path, failure: str) -> None:
        super().__init__(
            f"the local cloud does not trust the state in {path}: {failure}",
            remedy="if you know its origin, make yourself its owner and the only user who can write to it; "
            "otherwise set TRITONSTACK_CLOUD to another cloud",
        )


class NotKeptError(TritonstackError):
    """The state could not be written, so the request is rejected."""

    code = StorageError.code

    def __init__(self, folder: Path, failure: str) -> None:
        super().__init__(
            f"the local cloud cannot write its state to {folder}: {failure}",
            remedy="free disk space or make the folder writable, then retry; the saved state is intact",
        )


class StateInUseError(TritonstackError):
    """Another process has locked the state."""

    code = StateDamagedError.code

    def __init__(self, file: Path) -> None:
        super().__init__(
            f"another process uses the local cloud's state ({file})",
            remedy="end that process; find it with `fuser`",
        )


class OtherVersionError(Exception):
    """The state was written by another version of tritonstack, moto, or Python."""
