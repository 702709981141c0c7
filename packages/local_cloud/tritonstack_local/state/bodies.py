"""Store S3 object bodies as files, one per body, written once; neither memory nor a snapshot holds them.

A body's file is written before the snapshot that refers to it, and removed after one that no longer does.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from tritonstack_local.state.folder import NotKeptError, own_folder, write_error

BLOCK = 1 << 20
_DRAFT = "-draft"


class StoredBytes(mmap.mmap):
    """A file used like bytes: with a length, slices, a buffer, and iteration in blocks."""

    path: Path

    @classmethod
    def of(cls, path: Path) -> StoredBytes:
        """Open a file that is not empty."""
        with path.open("rb") as file:
            content = cls(file.fileno(), 0, access=mmap.ACCESS_READ)
        content.path = path
        return content

    @property
    def is_draft(self) -> bool:
        """Whether the file is temporary and can become a body."""
        return self.path.name.endswith(_DRAFT)

    def discard(self) -> None:
        """Remove the file unless it became a body."""
        if self.is_draft:
            self.path.unlink(missing_ok=True)

    def __copy__(self) -> StoredBytes:
        return self

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        return iter(StoredRange(self, 0, len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Return a byte or a range; a large range is read only when iterated."""
        if isinstance(key, slice):
            begin, end, step = key.indices(len(self))
            if step == 1 and end - begin > BLOCK:
                return StoredRange(self, begin, end)
        return super().__getitem__(key)


@dataclass(frozen=True)
class StoredRange:
    """A part of a stored body, read from its file when it is iterated."""

    content: StoredBytes
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[bytes]:
        for start in range(self.begin, self.end, BLOCK):
            yield self.content[start : min(start + BLOCK, self.end)]


class Body:
    """The body of an object, with the interface of the buffer that moto expects."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def write(self, content: bytes | StoredBytes | StoredRange) -> None:
        """Set the content; only once."""
        if self._name is not None:
            raise ValueError("a body is written once")
        self._name = BODIES.add(content)

    def read(self, size: int = -1) -> bytes | StoredBytes:
        """Return the rest of the body, or the next `size` bytes.

        A large body is read only when iterated.
        """
        if self._name is None:
            return b""
        path = BODIES.path(self._name)
        if size < 0 and _reading.position == 0 and path.stat().st_size > BLOCK:
            return StoredBytes.of(path)
        with path.open("rb") as file:
            file.seek(_reading.position)
            # moto hashes bodies in pieces of 16 MiB, and holds two of them at a time.
            content = file.read(min(size, BLOCK) if size >= 0 else -1)
        _reading.position += len(content)
        return content

    def seek(self, position: int) -> None:
        """Continue reading there. A thread reads one body at a time."""
        _reading.position = position

    def truncate(self) -> None:
        """Do nothing: only a new body is written."""

    def close(self) -> None:
        """Do nothing: the next snapshot tells whether the file is still needed."""

    def __deepcopy__(self, _memo: object) -> Body:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        if self._name is not None:
            BODIES.pickled.add(self._name)
        return Body, (self._name,)


_reading = threading.local()


def new_body(max_size: int) -> Body | IO[bytes]:
    """Create an empty body; outside of clouds, moto's own buffer."""
    return Body() if BODIES.is_used else tempfile.SpooledTemporaryFile(max_size)


def joined(parts: Iterable[bytes | StoredBytes]) -> StoredBytes | bytes:
    """Join the parts of an object; outside of clouds, in memory."""
    return BODIES.join(parts) if BODIES.is_used else b"".join(bytes(part) for part in parts)


class BodyStore:
    """The folder of bodies. Thread-safe."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self.pickled: set[str] = set()
        """The bodies that were pickled since a snapshot began."""

    def use(self, folder: Path) -> None:
        """Use this folder from now on: a process has one cloud at a time."""
        self._folder = own_folder(folder)
        self.remove(name for name in os.listdir(folder) if name.endswith(_DRAFT))  # left by a kill

    @property
    def is_used(self) -> bool:
        """Whether there is a cloud."""
        return self._folder is not None

    def path(self, name: str) -> Path:
        """Location of a body."""
        return (self._folder or Path()) / name

    def add(self, content: bytes | StoredBytes | StoredRange) -> str:
        """Write a file, or share the one of a stored body, which never changes."""
        if isinstance(content, StoredBytes) and not content.is_draft:
            return content.path.name
        path = self.path(uuid.uuid4().hex)
        if isinstance(content, StoredBytes):
            content.path = content.path.rename(path)
        else:
            self._write(path, [content] if isinstance(content, bytes) else content)
        return path.name

    def receive(self, stream: IO[bytes]) -> StoredBytes | bytes:
        """Read the body of a request; store a large one in a file that can become a body."""
        begin = stream.read(BLOCK)
        if len(begin) < BLOCK:
            return begin
        blocks = iter(partial(stream.read, BLOCK), b"")
        try:
            return self.join(chain((begin,), blocks))
        except NotKeptError:
            # Many clients read no answer before they have sent everything.
            for _ in blocks:
                pass
            raise

    def join(self, parts: Iterable[bytes | StoredBytes]) -> StoredBytes | bytes:
        """Join parts in a file that can become a body."""
        path = self.path(f"{uuid.uuid4().hex}{_DRAFT}")
        self._write(
            path, (block for part in parts for block in ([part] if isinstance(part, bytes) else part))
        )
        if path.stat().st_size:
            return StoredBytes.of(path)
        path.unlink()
        return b""

    def _write(self, path: Path, blocks: Iterable[bytes]) -> None:
        with _whole_or_removed(path), path.open("xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    def names(self) -> set[str]:
        """List the bodies in the folder."""
        return {name for name in os.listdir(self.path("")) if not name.endswith(_DRAFT)}

    def remove(self, names: Iterable[str]) -> None:
        """Remove files."""
        for name in names:
            self.path(name).unlink(missing_ok=True)


@contextmanager
def _whole_or_removed(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise write_error(path.parent, error) from error
        raise


BODIES = BodyStore()
"""Like moto's backends, it belongs to the process."""
