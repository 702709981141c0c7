"""Write the file that a person names with an option, and check before that it can be written."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import UsageError
from tritonstack.base.files import write_atomically


def require_output(file: Path) -> None:
    """Raise UsageError if a file cannot be written, before the work whose result it gets."""
    if not file.parent.is_dir():
        raise _missing_folder(file)
    try:
        with suppress(FileNotFoundError):
            os.lstat(file)  # a name can be too long
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not file.exists():
            tempfile.TemporaryFile(dir=file.parent).close()
        elif not os.access(file, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _unwritable(file, error) from error


def write_output(file: Path, content: bytes) -> None:
    """Write a file atomically; write devices, pipes, and the targets of links in place. Raise UsageError.

    A missing folder is an error: a mistyped path would leave folders behind.
    """
    if not file.parent.is_dir():
        raise _missing_folder(file)
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            write_atomically(file, content)
    except OSError as error:
        raise _unwritable(file, error) from error


def _missing_folder(file: Path) -> UsageError:
    return CommandLineError(
        f"cannot write {file}: its folder does not exist", remedy="create the folder, or correct the path"
    )


def _unwritable(file: Path, error: OSError) -> UsageError:
    return CommandLineError(
        f"cannot write {file}: {error.strerror}",
        remedy="name a file in a folder that you may write to, on a disk with free space",
    )
