"""Atomic file writes, single-writer locks on folders, and SHA-256 checksums."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder. The lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def write_text_atomically(file: Path, text: str) -> bool:
    """Replace the content of `file` atomically; return True if it changed."""
    if file.is_file() and file.read_bytes() == text.encode():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def short_digest(digest: str) -> str:
    """Return the start of an artifact, image, or file digest, as messages show it."""
    return digest.removeprefix("sha256:")[:12]
