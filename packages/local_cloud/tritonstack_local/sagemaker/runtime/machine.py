"""Measure this machine's free memory, and how many servers it can hold."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MEMORY = Path("/proc/meminfo")
_OWN_GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the free memory in bytes, of the machine and of this process's container, if any."""
    return min(_free_of_machine(), _free_of_group(_OWN_GROUP))


def _free_of_machine() -> int:
    return _numbers(_MEMORY)["MemAvailable:"] * 1024


def _free_of_group(group: Path) -> int:
    """Return a control group's free memory; its page cache counts as free."""
    try:
        limit = (group / "memory.max").read_text().strip()
        held = int((group / "memory.current").read_text()) - _numbers(group / "memory.stat")["inactive_file"]
    except FileNotFoundError:  # no container, or cgroup v1
        return _free_of_machine()
    return _free_of_machine() if limit == "max" else max(0, int(limit) - held)


def _numbers(file: Path) -> dict[str, int]:
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: int(value) for name, value, *_ in lines}


# Memory of a Triton with a typical model, including loading.
INSTANCE_BYTES = 1 << 30


@dataclass(frozen=True)
class ServerSlots:
    """The capacity shared by all instances: about one server per core."""

    cores: int
    instance_bytes: int = INSTANCE_BYTES

    def holds(self, asked: int, *, running: int) -> int:
        """Return how many of a variant's requested instances to run, at least one."""
        room = running + free_memory() // self.instance_bytes
        return min(asked, max(1, running, min(self.cores, room)))


def this_machine() -> ServerSlots:
    """Return the capacity available to this process."""
    return ServerSlots(cores=len(os.sched_getaffinity(0)))
