"""Create, check, and set aside the folders of a cloud's state."""

from __future__ import annotations

import os
import stat
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


def own_folder(folder: Path) -> Path:
    """Create a folder that only its owner can use, or check that an existing one is such."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(folder)
    return folder


def check_owner(path: Path, *, may_be_open: bool = False) -> None:
    """Reject a path that another user owns or, unless `may_be_open`, can write to."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise ForeignStateError(path, "it is a symbolic link")
    if status.st_uid != os.geteuid():
        raise ForeignStateError(path, f"its owner is user {status.st_uid}, not user {os.geteuid()}")
    if not may_be_open and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ForeignStateError(path, "other users can write to it")


def set_aside(path: Path) -> Path:
    """Rename a folder to a free name next to it; `tritonstack down --forget` removes both."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    return path.rename(aside)
