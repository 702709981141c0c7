"""The content of a stored body, read from its file where it is used: none is held in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 1 << 20


class StoredBytes(mmap.mmap):
    """A file that can stand for bytes: it has a length, slices and a buffer, and is iterated in blocks."""

    path: Path
    is_draft: bool
    """Whether the file has no other use than to become a body."""

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
        """Remove the file, unless it has become a body."""
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
        """Return a byte or a range; a large range is not read, but can be iterated."""
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
