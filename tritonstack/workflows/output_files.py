"""Write the file that a person names with an option."""

from __future__ import annotations

from pathlib import Path

from tritonstack.base.errors import UsageError
from tritonstack.base.files import write_atomically


def write_output(file: Path, content: bytes) -> None:
    """Write a file atomically; write devices, pipes, and the targets of links in place. Raise UsageError.

    A missing folder is an error: a mistyped path would leave folders behind.
    """
    if not file.parent.is_dir():
        raise UsageError(
            f"cannot write {file}: its folder does not exist",
            remedy="create the folder, or correct the path",
            code="TS907",
        )
    try:
        if file.is_symlink() or (file.exists() and not file.is_file()):
            file.write_bytes(content)
        else:
            write_atomically(file, content)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}",
            remedy="name a file in a folder that you may write to, on a disk with free space",
            code="TS907",
        ) from error
