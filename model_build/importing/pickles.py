"""Read which modules a pickle refers to, without loading it."""

from __future__ import annotations

import pickletools
from pathlib import Path

from model_build.errors import ModelImportError

LARGEST = 256 << 20


def names_in_pickle(file: Path, *, shown: Path) -> frozenset[str]:
    """Return all strings of a pickle, module and class names among them; nothing of it is run."""
    names: set[str] = set()
    if file.stat().st_size > LARGEST:
        raise ModelImportError(
            f"{shown}: the pickle is larger than {LARGEST >> 20} MiB, and is not read",
            remedy="save the weights in another format",
        )
    try:
        for operation, argument, _ in pickletools.genops(file.read_bytes()):
            if operation.name == "GLOBAL":
                names |= set(str(argument).split(" "))
            elif isinstance(argument, str):
                names.add(argument)
    except Exception as error:
        raise ModelImportError(f"{shown}: not a pickle: {error}", remedy="export the model again") from error
    return frozenset(names)
