"""What SageMaker needs of the rest of the cloud."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tritonstack.facts.hardware import INSTANCE_TYPES
from tritonstack_local.service.clients import Clients
from tritonstack_local.settings import DEFAULT_TIME_SCALE, REAL_MINUTE_S, TimeScale

# As on AWS, the instance type limits memory and volume of a multi-model instance; models are unloaded or
# deleted when these are short. If this machine has less, its own memory and disk are the limits.


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
        used = int((group / "memory.current").read_text()) - _numbers(group / "memory.stat")["inactive_file"]
    except FileNotFoundError:  # no container, or cgroup v1
        return _free_of_machine()
    return _free_of_machine() if limit == "max" else max(0, int(limit) - used)


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

    def holds(self, count: int, *, running: int) -> int:
        """Return how many of a variant's requested instances to run, at least one."""
        room = running + free_memory() // self.instance_bytes
        return min(count, max(1, running, min(self.cores, room)))


def this_machine() -> ServerSlots:
    """Return the capacity available to this process."""
    return ServerSlots(cores=len(os.sched_getaffinity(0)))


# SageMaker's default volume of instances without local disks.
USUAL_VOLUME_GB = 30
# SageMaker unloads when "memory utilization is high"; AWS gives no number.
HIGH_SHARE_OF_MEMORY = 0.9
# Part of the machine's disk reserved for other uses.
DISK_RESERVE_BYTES = 1 << 30


@dataclass(frozen=True)
class Limits:
    """The limits of one instance."""

    memory_bytes: int | None
    """None if only the machine limits it."""
    loaded_models: int | None = None
    """Maximum number of loaded models, to simulate an instance with less memory."""

    def is_short_of_memory(self, *, held: int, needed: int) -> bool:
        """Return whether a model of this size exceeds the limits."""
        of_instance = self.memory_bytes is not None and (
            held + needed > self.memory_bytes * HIGH_SHARE_OF_MEMORY
        )
        return of_instance or needed > free_memory()


def limits_of(instance_type: str, *, loaded_models: int | None) -> Limits:
    """Return the limits of an instance type."""
    facts = INSTANCE_TYPES.get(instance_type)
    return Limits(
        memory_bytes=None if facts is None else int(facts.memory_gib * 2**30),
        loaded_models=loaded_models,
    )


def volume_bytes(instance_type: str, volume_gb: int | None) -> int | None:
    """Return the volume size of an instance; None for local disks, assumed to be large enough."""
    facts = INSTANCE_TYPES.get(instance_type)
    if volume_gb is None and facts is not None and facts.family.local_storage:
        return None
    return (volume_gb or USUAL_VOLUME_GB) * 2**30


if TYPE_CHECKING:
    from tritonstack_local.container_group import ContainerGroup


@dataclass(frozen=True)
class Dependencies:
    """Dependencies of SageMaker on the rest of the cloud."""

    folder: Path
    """Folder of the endpoints' instances."""
    clients: Clients
    time_scale: TimeScale = DEFAULT_TIME_SCALE
    machine: ServerSlots = field(default_factory=this_machine)
    """Limits of the machine."""
    container_group: ContainerGroup | None = None
    """Where images in the Docker engine run; None to serve all with the embedded Triton."""
    loaded_models: int | None = None
    """Maximum number of loaded models per multi-model instance, besides the memory limit."""
    provisioning_minutes: float = 0.0
    """Minutes on AWS until an added instance serves, at least."""

    @property
    def provisioning_s(self) -> float:
        """The same in seconds here."""
        return self.time_scale.lasting(self.provisioning_minutes * REAL_MINUTE_S)
