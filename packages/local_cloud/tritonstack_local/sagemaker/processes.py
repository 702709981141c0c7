"""What a process and all that descend from it use of the machine, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """Processor time since the start of each process, and memory."""

    cpu_s: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.cpu_s + other.cpu_s, self.memory_bytes + other.memory_bytes)


class ProcessTable:
    """Every process at one moment."""

    def __init__(self) -> None:
        self._usage: dict[int, Usage] = {}
        self._children: dict[int, list[int]] = {}
        for pid, parent, usage in _processes():
            self._usage[pid] = usage
            self._children.setdefault(parent, []).append(pid)

    def used_below(self, pid: int) -> Usage:
        """Add up a process and its descendants; nothing if it has ended."""
        total = self._usage.get(pid, Usage())
        for child in self._children.get(pid, []):
            total += self.used_below(child)
        return total


def _processes() -> Iterator[tuple[int, int, Usage]]:
    for entry in os.scandir(_PROC):
        if entry.name.isdecimal():
            try:
                # The name in parentheses may hold anything; what follows is numbers (proc(5)).
                numbers = (_PROC / entry.name / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            cpu_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
            yield int(entry.name), int(numbers[1]), Usage(cpu_s, int(numbers[21]) * _PAGE_BYTES)
