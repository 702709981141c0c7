"""Check weights before loading: valid headers, and indexes that name only local files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from model_build.errors import DamagedSourceError
from tritonstack.base.files import read_json
from tritonstack.files.sources.safetensors_header import REMEDY, header_violation

INDEXES = ("*.safetensors.index.json", "*.bin.index.json")
"""Index names of safetensors and of pickles."""


def check_weights(files: Iterable[Path]) -> None:
    """Raise SourceError for the first incomplete file, or an index with missing parts."""
    folders = set()
    for file in files:
        if file.suffix == ".safetensors":
            _check_file(file)
        folders.add(file.parent)
    for folder in sorted(folders):
        for pattern in INDEXES:
            for index in sorted(folder.glob(pattern)):
                _check_index(index)


def _check_file(file: Path) -> None:
    if violation := header_violation(file):
        raise DamagedSourceError(violation, remedy=REMEDY)
    try:
        # Reads and checks the header only: types, sizes, gaps, and overlaps.
        with safe_open(str(file), framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise DamagedSourceError(f"the header of {file.name} is wrong: {error}", remedy=REMEDY) from error


def _check_index(index: Path) -> None:
    """Check index files: entries in other folders would load unhashed weights."""
    try:
        parts = sorted(set(read_json(index)["weight_map"].values()))
        outside = [part for part in parts if part != Path(part).name]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedSourceError(f"{index.name} has no valid weight map: {error}", remedy=REMEDY) from error
    if outside:
        raise DamagedSourceError(
            f"{index.name} names files outside its folder: {', '.join(outside[:5])}",
            remedy="copy the files next to it, and use names without folders",
        )
    missing = [part for part in parts if not (index.parent / part).is_file()]
    if missing and index.match(INDEXES[0]):  # pickles are fetched only if trusted
        raise DamagedSourceError(
            f"{index.name} names missing files: {', '.join(missing)}",
            remedy="fetch or copy the missing files too",
        )
