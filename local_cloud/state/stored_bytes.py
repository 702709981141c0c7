"""The content of a stored body, read from its file where it is used: none is held in memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
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

    def __copy__(self) -> StoredBytes:
        return self

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        """Read block by block, without touching the mapping."""
        for begin in range(0, len(self), BLOCK):
            yield os.pread(self._descriptor, BLOCK, begin)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            begin, end, step = key.indices(len(self))
            if step == 1:
                return os.pread(self._descriptor, max(0, end - begin), begin)
        return super().__getitem__(key)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
