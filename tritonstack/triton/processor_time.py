"""CPU time of a process and its descendants, as Linux counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Return the CPU time of a process tree so far; that of ended processes is not counted."""
    return sum(_ticks(process) for process in tree(pid)) / TICKS_PER_S


def tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, including those in other namespaces."""
    yield pid
    for child in _children(pid):
        yield from tree(child)


def _ticks(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return int(user) + int(system)
    return 0


def _children(pid: int) -> list[int]:
    """Return the children of all threads; those of threads that end meanwhile are not counted."""
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            with suppress(FileNotFoundError, ProcessLookupError):
                children += map(int, (task / "children").read_text().split())
    return children
