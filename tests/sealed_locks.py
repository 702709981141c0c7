"""Write locks for tests as `tritonstack` does, with a valid seal on every entry."""

from __future__ import annotations

from pathlib import Path

from tritonstack.records.lock_writing import write_lock
from tritonstack.records.locks import Lock, locked_environment


def write_sealed(file: Path, lock: Lock) -> Lock:
    """Write a lock and return the file's content as a lock."""
    environment, sealed = locked_environment(file), lock
    for model, targets in lock.models.items():
        for target, artifact in targets.items():
            sealed = sealed.with_entry(model, target, artifact.sealed((environment, model, target)))
    for folder, kinds in lock.images.items():
        for kind, image in kinds.items():
            sealed = sealed.with_image(folder, kind, image.sealed((environment, folder, kind)))
    write_lock(file, sealed)
    return sealed
