"""The memory and disk limits of a multi-model instance.

As on AWS, the instance type limits memory and volume; models are unloaded or deleted when these are short. If
this machine has less, its own memory and disk are the limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.reference.hardware import INSTANCE_TYPES
from tritonstack_local.sagemaker.runtime.machine import free_memory

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
    volume_bytes: int | None
    """None for the machine's own disk."""
    loaded_models: int | None = None
    """Maximum number of loaded models, to simulate an instance with less memory."""

    def is_short_of_memory(self, *, held: int, needed: int) -> bool:
        """Return whether a model of this size exceeds the limits."""
        of_instance = self.memory_bytes is not None and (
            held + needed > self.memory_bytes * HIGH_SHARE_OF_MEMORY
        )
        return of_instance or needed > free_memory()


def limits_of(instance_type: str, *, volume_gb: int | None, loaded_models: int | None) -> Limits:
    """Return the limits of an instance type and its variant's settings."""
    known = INSTANCE_TYPES.get(instance_type)
    return Limits(
        memory_bytes=None if known is None else int(known.memory_gib * 2**30),
        volume_bytes=volume_bytes(instance_type, volume_gb),
        loaded_models=loaded_models,
    )


def volume_bytes(instance_type: str, volume_gb: int | None) -> int | None:
    """Return the volume size of an instance; None for local disks, assumed to be large enough."""
    known = INSTANCE_TYPES.get(instance_type)
    if volume_gb is None and known is not None and known.family.local_storage:
        return None
    return (volume_gb or USUAL_VOLUME_GB) * 2**30
