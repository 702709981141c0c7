"""Measure the memory and CPU time of a process and its descendants, as Linux counts them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tritonstack.triton.processor_time import processor_seconds, tree


@dataclass(frozen=True)
class Footprint:
    """Memory and size of a process tree."""

    processes: int
    resident_mib: float
    """Resident memory; shared pages count once per process."""
    proportional_mib: float
    """Resident memory; shared pages count once."""

    def __str__(self) -> str:
        return (
            f"{self.proportional_mib:.0f} MiB (PSS), {self.resident_mib:.0f} MiB (RSS), "
            f"{self.processes} process{'es' if self.processes > 1 else ''}"
        )


def footprint(pid: int) -> Footprint:
    """Measure a process tree."""
    pids = list(tree(pid))
    rollups = [_rollup(member) for member in pids]
    return Footprint(
        processes=len(pids),
        resident_mib=sum(rollup["Rss"] for rollup in rollups) / 1024,
        proportional_mib=sum(rollup["Pss"] for rollup in rollups) / 1024,
    )


def idle_processor(pid: int, *, seconds: float) -> str:
    """Return the share of one core that an idle process tree uses."""
    before, started = processor_seconds(pid), time.monotonic()
    time.sleep(seconds)
    share = (processor_seconds(pid) - before) / (time.monotonic() - started)
    return f"{share * 100:.1f} % of a core"


def _rollup(pid: int) -> dict[str, int]:
    """Return the memory figures in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines)}
