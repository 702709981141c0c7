"""How many servers this machine holds: an instance on AWS is a machine, here it is a share of one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tritonstack_local.machine import free_memory

# What a Triton with a model of ordinary size takes, loading included.
INSTANCE_BYTES = 1 << 30


@dataclass(frozen=True)
class Machine:
    """What instances share. Threads of several servers on one core only wait for each other."""

    cores: int
    instance_bytes: int = INSTANCE_BYTES

    def holds(self, asked: int, *, running: int) -> int:
        """Say how many of the instances asked of a variant there will be, of which some run; at least one."""
        room = running + free_memory() // self.instance_bytes
        return min(asked, max(1, running, min(self.cores, room)))


def this_machine() -> Machine:
    """Describe the machine that this process may use."""
    return Machine(cores=len(os.sched_getaffinity(0)))
