"""Copy lock entries into another lock, as a promotion does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tritonstack.files.records.lock_writing import LockChange, replace_entries
from tritonstack.files.records.locks import Promoted


def add_promoted(file: Path, promoted: Promoted, changes: Iterable[LockChange]) -> bool:
    """Each entry is copied as it is in the source's lock."""
    came = {"promoted": promoted, "rolled_back": None}
    return replace_entries(
        file, [replace(change, entry=change.entry.model_copy(update=came)) for change in changes]
    )
