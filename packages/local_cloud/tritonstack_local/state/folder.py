"""Create, check, and set aside the folders of a cloud's state."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tritonstack_local.state.errors import ForeignStateError


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
