"""Copy lock entries into another lock, as a promotion does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tritonstack.records.lock_writing import Replacement, replace_entries
from tritonstack.records.locks import LockedArtifact, LockedImage, Promoted


def add_promoted(
    file: Path,
    promoted: Promoted,
    *,
    artifacts: Iterable[Replacement[LockedArtifact]] = (),
    images: Iterable[Replacement[LockedImage]] = (),
) -> bool:
    """Each entry is copied as it is in the source's lock."""
    came = {"promoted": promoted, "rolled_back": None}
    return replace_entries(
        file,
        artifacts=[
            Replacement(item.name, item.key, item.entry.model_copy(update=came), item.seen, item.conflicting)
            for item in artifacts
        ],
        images=[
            Replacement(item.name, item.key, item.entry.model_copy(update=came), item.seen) for item in images
        ],
    )
