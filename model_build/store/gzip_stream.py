"""Write a gzip stream in blocks of one size, which are compressed at the same time, and hash it.

The bytes do not depend on the number of threads: each block is compressed with the end of the one before as
its dictionary.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from types import TracebackType
from typing import IO, cast

from isal import igzip_threaded

LEVEL = 1
BLOCK = 102 * tarfile.RECORDSIZE
"""Bytes per compressed block: the most whole records of tar in 1 MiB. With LEVEL, it decides the bytes."""
_THREADS = 4
"""Most threads that compress. The disk limits how many are useful."""
# The library's own types are incomplete and in one place wrong.
open_gzip = cast("Callable[..., IO[bytes]]", igzip_threaded.open)


class EndedEarlyError(Exception):
    """A file is shorter than when it was opened."""


class _HashedFile(io.RawIOBase):
    """Passes the compressed bytes on."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override] # the library writes bytes only
        self.sha256.update(data)
        return self._file.write(data)


class GzipStream:
    """A gzip stream into a file. Its digest and size are valid at the end of the block."""

    def __init__(self, file: IO[bytes], *, threads: int | None = None) -> None:
        count = threads or min(_THREADS, len(os.sched_getaffinity(0)))
        self.position = 0
        """Bytes written, before compression."""
        self._compressed = _HashedFile(file)
        self._stream = open_gzip(self._compressed, "wb", LEVEL, threads=count, block_size=BLOCK)

    @property
    def digest(self) -> str:
        """The SHA-256 of the compressed bytes."""
        return self._compressed.sha256.hexdigest()

    def write(self, data: bytes) -> None:
        """Write a few bytes, such as headers."""
        while data:
            # The library compresses what it has at a write that does not fit into its block.
            part, data = data[: self._room], data[self._room :]
            self._stream.write(part)
            self.position += len(part)

    def write_file(self, file: io.FileIO, size: int) -> str:
        """Write `size` bytes of a file and return their SHA-256; raise EndedEarlyError if it has fewer."""
        digest = hashlib.sha256()
        end = self.position + size
        while self.position < end:
            part = file.read(min(self._room, end - self.position))
            if not part:
                raise EndedEarlyError
            digest.update(part)
            self.write(part)
        return digest.hexdigest()

    def __enter__(self) -> GzipStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    @property
    def _room(self) -> int:
        """Bytes until the current block is full."""
        return BLOCK - self.position % BLOCK
