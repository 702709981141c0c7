"""Atomic writes, staging folders, single-writer locks, checksums, and JSON that others wrote."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

_NEW_MODE = 0o644
LARGEST_JSON_BYTES = 64 * 1024**2
DEEPEST_JSON = 100
"""Limits of `read_json` and `parse_json`. Python's parser has none: deep nesting ends in a RecursionError,
there or where the values are used."""
_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""Strings, an unfinished one up to the end included, so that the search takes linear time."""
_BRACKETS = b"[]{}"
_OTHER_BYTES = bytes(set(range(256)) - set(_BRACKETS))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

Pairs = list[tuple[str, Any]]


@contextmanager
def only_writer(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a folder. The lock ends with the process.

    Without `wait`, raise BlockingIOError if another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextmanager
def only_one(lock: Path, *, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock on a file, which ends with the process. Call `on_wait` if another process holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait:
                on_wait()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


@contextmanager
def staging_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Give an empty folder in `parent`, deleted at the end unless it was moved.

    Also deletes the folders of processes that were killed. Its own stays locked while the process lives.
    """
    with only_writer(parent):
        _remove_unlocked(parent, prefix)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Delete the staging folders of processes that were killed."""
    if any(parent.glob(f"{prefix}*")):
        with only_writer(parent):
            _remove_unlocked(parent, prefix)


def _remove_unlocked(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # it is locked, or its process has just deleted it
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(handle)


def write_text_atomically(file: Path, text: str) -> bool:
    """Replace the content of `file` atomically; return True if it changed."""
    if file.is_file() and file.read_bytes() == text.encode():
        return False
    write_atomically(file, text.encode())
    return True


def write_atomically(file: Path, content: bytes) -> None:
    """Replace the content of `file` atomically; keep its mode, and write to the target of a link."""
    if file.is_symlink():
        file = file.resolve()
    mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else _NEW_MODE
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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


def read_json(file: Path, *, limit_bytes: int = LARGEST_JSON_BYTES) -> Any:
    """Read a file; raise OSError, or ValueError for anything but JSON within the limits."""
    with file.open("rb") as stream:
        return parse_json(stream.read(limit_bytes + 1), limit_bytes=limit_bytes)


def parse_json(
    data: bytes | str, *, limit_bytes: int = LARGEST_JSON_BYTES, pairs: Callable[[Pairs], Any] | None = None
) -> Any:
    """Parse JSON in UTF-8; raise ValueError if it is too large, nested too deeply, or invalid.

    `pairs` makes an object of its keys and values.
    """
    content = data.encode() if isinstance(data, str) else data
    if len(content) > limit_bytes:
        raise ValueError(f"larger than {limit_bytes} bytes")
    if any(depth > DEEPEST_JSON for depth in accumulate(map(_STEPS.__getitem__, _brackets(content)))):
        raise ValueError(f"more than {DEEPEST_JSON} levels of lists and objects")
    return json.loads(content.decode(), object_pairs_hook=pairs)


def _brackets(content: bytes) -> bytes:
    return _TEXTS.sub(b"", content).translate(None, _OTHER_BYTES)
