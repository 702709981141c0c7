"""Notice changes of a model's files by looking at them repeatedly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tritonstack.base.source_files import is_ignored

Snapshot = Mapping[str, tuple[int, int]]
"""Modification time and size of each file."""
LOOK_EVERY_S = 0.25


def snapshot_of(folders: Iterable[Path]) -> Snapshot:
    """Return the state of all files in some folders; files that are never part of a model are left out."""
    return dict(_states(folders))


def wait_for_change(look: Callable[[], Snapshot], start: Snapshot) -> Snapshot:
    """Return a later snapshot, once two in a row are equal: editors write a file in several steps."""
    before = start
    while True:
        time.sleep(LOOK_EVERY_S)
        now = look()
        if now != start and now == before:
            return now
        before = now


def _states(folders: Iterable[Path]) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder in folders:
        for parent, inner, files in os.walk(folder, followlinks=True):
            inner[:] = sorted(name for name in inner if not is_ignored(name))
            for name in files:
                if not is_ignored(name):
                    path = os.path.join(parent, name)
                    try:
                        state = os.stat(path)
                    except OSError:
                        continue  # removed meanwhile, or a broken link
                    yield path, (state.st_mtime_ns, state.st_size)
