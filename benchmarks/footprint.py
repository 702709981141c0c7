"""The memory and the processor time of a process and all that it has started, as Linux counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Footprint:
    """What a tree of processes takes."""

    processes: int
    resident_mib: float
    """Memory that each has in use, shared pages counted for each."""
    proportional_mib: float
    """The same with every shared page counted once."""

    def __str__(self) -> str:
        return (
            f"{self.proportional_mib:.0f} MiB (PSS), {self.resident_mib:.0f} MiB (RSS), "
            f"{self.processes} process{'es' if self.processes > 1 else ''}"
        )


def footprint(pid: int) -> Footprint:
    """Measure a tree of processes."""
    pids = list(tree(pid))
    rollups = [_rollup(one) for one in pids]
    return Footprint(
        processes=len(pids),
        resident_mib=sum(rollup["Rss"] for rollup in rollups) / 1024,
        proportional_mib=sum(rollup["Pss"] for rollup in rollups) / 1024,
    )


def idle_processor(pid: int, *, seconds: float) -> str:
    """The share of one core that a tree takes while nobody asks it for anything."""
    before, started = _ticks(pid), time.monotonic()
    time.sleep(seconds)
    share = (_ticks(pid) - before) / TICKS_PER_S / (time.monotonic() - started)
    return f"{share * 100:.1f} % of a core"


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants, in namespaces of their own too."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from tree(int(child))


def _rollup(pid: int) -> dict[str, int]:
    """In KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines)}


def _ticks(pid: int) -> int:
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in tree(pid)]
    return sum(int(user) + int(system) for *_, user, system in (field[:13] for field in fields))
