"""Store S3 object bodies as files, one per body, written once; neither memory nor a snapshot holds them.

A body's file is removed after a write of the state that no longer refers to it. So all bodies that the state
refers to exist after a kill; the next start removes the others.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from tritonstack_local.state.database import own_folder
from tritonstack_local.state.errors import NotKeptError

BLOCK = 1 << 20


class StoredBytes(mmap.mmap):
    """A file used like bytes: with a length, slices, a buffer, and iteration in blocks."""

    path: Path
    is_draft: bool
    """Whether the file is temporary and can become a body."""

    @classmethod
    def of(cls, path: Path, *, is_draft: bool = False) -> StoredBytes:
        """Open a file that is not empty."""
        with path.open("rb") as file:
            content = cls(file.fileno(), 0, access=mmap.ACCESS_READ)
            content._descriptor = os.dup(file.fileno())
        content.path, content.is_draft = path, is_draft
        return content

    _descriptor: int = -1

    def discard(self) -> None:
        """Remove the file unless it became a body."""
        if self.is_draft:
            self.path.unlink(missing_ok=True)

    def blocks(self, begin: int, end: int) -> Iterator[bytes]:
        """Read block by block, without touching the mapping."""
        for start in range(begin, end, BLOCK):
            yield os.pread(self._descriptor, min(BLOCK, end - start), start)

    def __copy__(self) -> StoredBytes:
        return self

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        return self.blocks(0, len(self))

    def __getitem__(self, key: Any) -> Any:
        """Return a byte or a range; a large range is read only when iterated."""
        if isinstance(key, slice):
            begin, end, step = key.indices(len(self))
            if step == 1 and end - begin > BLOCK:
                return StoredRange(self, begin, end)
            if step == 1:
                return os.pread(self._descriptor, max(0, end - begin), begin)
        return super().__getitem__(key)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


@dataclass(frozen=True)
class StoredRange:
    """A part of a stored body, read from its file when it is iterated."""

    content: StoredBytes
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __iter__(self) -> Iterator[bytes]:
        return self.content.blocks(self.begin, self.end)


_IN_MEMORY = 1 << 20
_current: ContextVar[BodyStore] = ContextVar("bodies")
_reading = threading.local()


class Body:
    """The body of an object, with the interface of the buffer that moto expects."""

    def __init__(self, bodies: BodyStore, name: str | None = None) -> None:
        self._bodies = bodies
        self._name = name
        if name is not None:
            bodies.guard(self, name)

    def write(self, content: bytes | StoredBytes | StoredRange) -> None:
        """Set the content; only once."""
        if self._name is not None:
            raise ValueError("a body is written once")
        self._name = self._bodies.add(content)
        self._bodies.guard(self, self._name)

    def read(self, size: int = -1) -> bytes | StoredBytes:
        """Return the rest of the body, or the next `size` bytes.

        A large body is read only when iterated.
        """
        if self._name is None:
            return b""
        if size < 0 and _reading.position == 0 and _length(self._name) > _IN_MEMORY:
            return StoredBytes.of(self._bodies.path(self._name))
        with self._bodies.path(self._name).open("rb") as file:
            file.seek(_reading.position)
            # moto hashes bodies in pieces of 16 MiB, and holds two of them at a time.
            content = file.read(min(size, BLOCK) if size >= 0 else -1)
        _reading.position += len(content)
        return content

    def seek(self, position: int) -> None:
        """Continue reading there. A thread reads one body at a time."""
        _reading.position = position

    def truncate(self) -> None:
        """Return whether the body is empty."""

    @property
    def is_lost(self) -> bool:
        """Whether its file was missing or damaged at the start."""
        return self._name in self._bodies.lost

    def emptied(self) -> Body:
        """Return the body that replaces this one after its disposal."""
        return Body(self._bodies)

    def __deepcopy__(self, _memo: object) -> Body:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _known_body, (self._name,)


def new_body(max_size: int) -> Body | IO[bytes]:
    """Create an empty body in the cloud of this request; outside of requests, moto's own buffer."""
    bodies = _current.get(None)
    return tempfile.SpooledTemporaryFile(max_size) if bodies is None else Body(bodies)


def joined(parts: Iterable[bytes | StoredBytes]) -> StoredBytes | bytes:
    """Join the parts of an object in a file of the cloud of this request."""
    bodies = _current.get(None)
    return bodies.join(parts) if bodies is not None else b"".join(bytes(part) for part in parts)


def _length(name: str) -> int:
    return int(name.rpartition("-")[2])


def _known_body(name: str | None) -> Body:
    return Body(_current.get(), name)


class BodyStore:
    """The folder of bodies. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = own_folder(folder)
        # Changes of sets and lists are atomic: no lock is needed, and a finalizer must not take one.
        self._used: set[str] = set()
        self._unused: list[str] = []
        self.lost: frozenset[str] = frozenset()
        """Bodies that were missing or truncated when the folder was opened."""

    @contextmanager
    def used(self) -> Iterator[None]:
        """Create moto's bodies in this folder within the context, in this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def add(self, content: bytes | StoredBytes | StoredRange) -> str:
        """Write a new file, named by its length. Files of stored bodies are shared and never change."""
        name = f"{uuid.uuid4().hex}-{len(content)}"
        path = self.path(name)
        if isinstance(content, StoredBytes):
            with self._kept_or_removed(path):
                (os.replace if content.is_draft else os.link)(content.path, path)
        else:
            self._write(path, [content] if isinstance(content, bytes) else content)
        return name

    def receive(self, stream: IO[bytes]) -> StoredBytes | bytes:
        """Read the body of a request; store a large one in a file that can become a body."""
        begin = stream.read(_IN_MEMORY)
        if len(begin) < _IN_MEMORY:
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
        path = self.path(f"{uuid.uuid4().hex}-draft")
        self._write(
            path, (block for part in parts for block in ([part] if isinstance(part, bytes) else part))
        )
        if path.stat().st_size:
            return StoredBytes.of(path, is_draft=True)
        path.unlink()
        return b""

    def _write(self, path: Path, blocks: Iterable[bytes]) -> None:
        with self._kept_or_removed(path), path.open("xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _kept_or_removed(self, path: Path) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise NotKeptError(self._folder, error.strerror or str(error)) from error
            raise

    def path(self, name: str) -> Path:
        """Location of a body."""
        return self._folder / name

    def guard(self, body: Body, name: str) -> None:
        """Keep a file as long as its body exists."""
        self._used.add(name)
        weakref.finalize(body, self._leave, name).atexit = False

    def unused(self) -> list[str]:
        """Return the files whose bodies were deleted since the last call."""
        names, self._unused = self._unused, []
        return names

    def remove(self, names: list[str]) -> None:
        """Remove files."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def find_lost(self) -> frozenset[str]:
        """Return the referenced bodies that are missing or have another length."""
        lengths = {entry.name: entry.stat().st_size for entry in os.scandir(self._folder)}
        self.lost = frozenset(
            name for name in self._used if lengths.get(name) != int(name.rpartition("-")[2])
        )
        return self.lost

    def sweep(self) -> None:
        """Remove files without a body, left by a kill."""
        self.remove([path.name for path in self._folder.iterdir() if path.name not in self._used])

    def _leave(self, name: str) -> None:
        self._used.discard(name)
        self._unused.append(name)
