"""Write a gzip stream: blocks are filled, compressed, and hashed at the same time.

The bytes are those of `isal.igzip_threaded.open` with one block per write, and do not depend on the number of
threads: each block is compressed with the end of the one before as its dictionary. That writer copies its
input three times and lets its threads wait for each other; here, files are read into the blocks.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any

from isal import isal_zlib

LEVEL = 1
BLOCK = 102 * tarfile.RECORDSIZE
"""Bytes per compressed block: the most whole records of tar in 1 MiB. With LEVEL, it decides the bytes."""
_DICTIONARY = 1 << 15
_LARGEST = BLOCK + BLOCK // 10
"""More than any block compressed, even of random bytes."""
_HEADER = struct.pack("<BBBBIBB", 0x1F, 0x8B, 8, 0, 0, 0xFF, 0)
"""Deflate, without name and time. The last two bytes are in isal's order, so that digests stay."""
_THREADS = 4
"""Most threads that compress. The disk limits how many are useful."""


class EndedEarlyError(Exception):
    """A file is shorter than when it was opened."""


class GzipStream:
    """A gzip stream into a file. Its digest and size are valid after `close`."""

    def __init__(self, file: IO[bytes], *, threads: int | None = None) -> None:
        count = threads or min(_THREADS, len(os.sched_getaffinity(0)))
        self.position = 0
        """Bytes written, before compression."""
        self._file = file
        self._sha256 = hashlib.sha256()
        self._checksum = 0
        self._block = memoryview(bytearray(BLOCK))
        self._filled = 0
        self._dictionary = b""
        self._free: list[memoryview] = []
        self._most_under_way = 3 * count
        self._under_way: deque[Future[memoryview]] = deque()
        self._compressors: SimpleQueue[Any] = SimpleQueue()
        for _ in range(count):
            self._compressors.put(isal_zlib._ParallelCompress(buffersize=_LARGEST, level=LEVEL))
        self._compressing = ThreadPoolExecutor(count)
        self._appending = ThreadPoolExecutor(1)
        self._append(_HEADER)

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the compressed bytes."""
        return self._sha256.hexdigest()

    def write(self, data: bytes) -> None:
        """Write a few bytes, such as headers."""
        begin = 0
        while begin < len(data):
            room = self._room()
            part = data[begin : begin + len(room)]
            room[: len(part)] = part
            self._advance(len(part))
            begin += len(part)

    def write_file(self, file: io.FileIO, size: int) -> str:
        """Write `size` bytes of a file and return their SHA-256; raise EndedEarlyError if it has fewer."""
        digest = hashlib.sha256()
        while size:
            room = self._room()[:size]
            count = file.readinto(room)
            if not count:
                raise EndedEarlyError
            digest.update(room[:count])
            self._advance(count)
            size -= count
        return digest.hexdigest()

    def close(self) -> None:
        """Write the rest and the trailer."""
        if self._filled:
            self._hand_over()
        while self._under_way:
            self._free.append(self._under_way.popleft().result())
        self._append(isal_zlib.compress(b"", LEVEL, -isal_zlib.MAX_WBITS))
        self._append(struct.pack("<II", self._checksum, self.position & 0xFFFFFFFF))

    def __enter__(self) -> GzipStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the stream, or after an error stop its threads."""
        try:
            if kind is None:
                self.close()
        finally:
            self._appending.shutdown(cancel_futures=True)
            self._compressing.shutdown(cancel_futures=True)

    def _room(self) -> memoryview:
        """Return the rest of the current block."""
        if self._filled == BLOCK:
            self._hand_over()
        return self._block[self._filled :]

    def _advance(self, count: int) -> None:
        self._filled += count
        self.position += count

    def _hand_over(self) -> None:
        """Have the current block compressed and appended; continue with another."""
        block = self._block[: self._filled]
        compressed = self._compressing.submit(self._compress, block, self._dictionary)
        self._under_way.append(
            self._appending.submit(self._append_block, self._block, len(block), compressed)
        )
        self._dictionary = bytes(block[-_DICTIONARY:])
        if len(self._under_way) >= self._most_under_way:
            self._free.append(self._under_way.popleft().result())
        self._block = self._free.pop() if self._free else memoryview(bytearray(BLOCK))
        self._filled = 0

    def _compress(self, block: memoryview, dictionary: bytes) -> tuple[bytes, int]:
        compressor = self._compressors.get()
        try:
            compressed: tuple[bytes, int] = compressor.compress_and_crc(block, dictionary)
            return compressed
        finally:
            self._compressors.put(compressor)

    def _append_block(
        self, block: memoryview, size: int, compressed: Future[tuple[bytes, int]]
    ) -> memoryview:
        """Append a compressed block; return its memory for another."""
        data, checksum = compressed.result()
        self._checksum = isal_zlib.crc32_combine(self._checksum, checksum, size)
        self._append(data)
        return block

    def _append(self, data: bytes) -> None:
        self._sha256.update(data)
        self._file.write(data)
