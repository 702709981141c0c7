"""Errors of a cloud's state, each with a remedy."""

from __future__ import annotations

from pathlib import Path

from tritonstack.base.error_kinds import StorageError
from tritonstack.base.errors import TritonstackError


class ForeignStateError(TritonstackError):
    """Another user could have written the local cloud's state, which can run code when it is read. Make
    yourself its owner, or use another cloud.
    """

    code = "TS612"
    title = "Local cloud's state cannot be used"

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


def write_error(folder: Path, error: OSError) -> NotKeptError:
    """Return the error of a file that could not be written."""
    return NotKeptError(folder, error.strerror or str(error))


class StateDamagedError(Exception):
    """A snapshot is not what was written."""


class OtherVersionError(Exception):
    """The state was written by another version of tritonstack, moto, or Python."""
