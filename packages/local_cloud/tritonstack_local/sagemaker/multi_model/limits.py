"""The memory and disk limits of a multi-model instance.

On AWS the instance type decides: SageMaker unloads models when the memory runs short and deletes them when
the volume does. Here the same holds as far as this machine has that much; where it has less, it is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.reference.hardware import INSTANCE_TYPES
from tritonstack_local.sagemaker.runtime.machine import free_memory

# SageMaker attaches so much to an instance that has no disks of its own, unless asked for another size.
USUAL_VOLUME_GB = 30
# SageMaker unloads when "memory utilization is high", without a number.
HIGH_SHARE_OF_MEMORY = 0.9
# The last of the machine's disk is left to others.
DISK_RESERVE_BYTES = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one instance may hold."""

    memory_bytes: int | None
    """None where nothing but the machine limits it."""
    volume_bytes: int | None
    """None for the machine's own disk."""
    loaded_models: int | None = None
    """How many models at most are loaded at once: it stands for an instance whose memory holds so many."""

    def is_short_of_memory(self, *, held: int, needed: int) -> bool:
        """Return whether a model that needs so much has no room beside what the server holds."""
        of_instance = self.memory_bytes is not None and (
            held + needed > self.memory_bytes * HIGH_SHARE_OF_MEMORY
        )
        return of_instance or needed > free_memory()


def limits_of(instance_type: str, *, volume_gb: int | None, loaded_models: int | None) -> Limits:
    """Read the limits off an instance type and what its variant asks for."""
    known = INSTANCE_TYPES.get(instance_type)
    return Limits(
        memory_bytes=None if known is None else int(known.memory_gib * 2**30),
        volume_bytes=volume_bytes(instance_type, volume_gb),
        loaded_models=loaded_models,
    )


def volume_bytes(instance_type: str, volume_gb: int | None) -> int | None:
    """Say how large an instance's volume is; None for one with disks of its own, taken to be large enough."""
    known = INSTANCE_TYPES.get(instance_type)
    if volume_gb is None and known is not None and known.family.local_storage:
        return None
    return (volume_gb or USUAL_VOLUME_GB) * 2**30
