"""How many servers this machine holds: an instance on AWS is a machine, here it is a share of one."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

# What a Triton with a model of ordinary size takes, loading included.
INSTANCE_BYTES = 1 << 30


@dataclass(frozen=True)
class Machine:
    """What instances share. Threads of several servers on one core only wait for each other."""

    cores: int
    instance_bytes: int = INSTANCE_BYTES

    def holds(self, asked: int, *, running: int) -> int:
        """Say how many of the instances asked of a variant there will be, of which some run; at least one."""
        room = running + _available_bytes() // self.instance_bytes
        return min(asked, max(1, running, min(self.cores, room)))


def this_machine() -> Machine:
    """Describe the machine that this process may use."""
    return Machine(cores=len(os.sched_getaffinity(0)))


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return sys.maxsize
