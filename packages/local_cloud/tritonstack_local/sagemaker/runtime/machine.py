"""Measure what this machine has left, and how many servers it can hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MEMORY = Path("/proc/meminfo")
_OWN_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """The bytes that new work can have: of the machine, and of the container that this cloud may run in."""
    return min(_free_of_machine(), _free_of_group(_OWN_GROUP))


def _free_of_machine() -> int:
    return _numbers(_MEMORY)["MemAvailable:"] * 1024


def _free_of_group(group: Path) -> int:
    """A control group counts the files that it has read too, which it can do without."""
    try:
        limit = (group / "memory.max").read_text().strip()
        held = int((group / "memory.current").read_text()) - _numbers(group / "memory.stat")["inactive_file"]
    except FileNotFoundError:  # the machine itself, or one with groups of the first version
        return _free_of_machine()
    return _free_of_machine() if limit == "max" else max(0, int(limit) - held)


def _numbers(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value, *_ in lines}


# What a Triton with a model of ordinary size takes, loading included.
INSTANCE_BYTES = 1 << 30


@dataclass(frozen=True)
class ServerSlots:
    """What instances share. Threads of several servers on one core only wait for each other."""

    cores: int
    instance_bytes: int = INSTANCE_BYTES

    def holds(self, asked: int, *, running: int) -> int:
        """Say how many of the instances asked of a variant there will be, of which some run; at least one."""
        room = running + free_memory() // self.instance_bytes
        return min(asked, max(1, running, min(self.cores, room)))


def this_machine() -> ServerSlots:
    """Describe the machine that this process may use."""
    return ServerSlots(cores=len(os.sched_getaffinity(0)))
