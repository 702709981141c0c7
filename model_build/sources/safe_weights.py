"""Looks into safetensors files before anything loads them: a truncated or lying header is told as such."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from model_build.errors import SourceError

INDEX_SUFFIX = ".safetensors.index.json"
LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000
REMEDY = "fetch or copy the file again, and compare its size with the original's"


def check_weights(files: Iterable[Path]) -> None:
    """Raise SourceError for the first file that is not whole, or that lacks a part its index names."""
    folders = set()
    for file in files:
        if file.suffix == ".safetensors":
            _check_file(file)
            folders.add(file.parent)
    for folder in sorted(folders):
        for index in sorted(folder.glob(f"*{INDEX_SUFFIX}")):
            _check_index(index)


def _check_file(file: Path) -> None:
    size = file.stat().st_size
    header = _read_header(file, size)
    ends = [entry["data_offsets"][1] for name, entry in header.items() if _is_tensor(name, entry)]
    begin = LENGTH_BYTES + _header_length(file)
    told = begin + max(ends, default=0)
    if size != told:
        kind = "cut short" if size < told else "too long"
        raise SourceError(
            f"{file.name} is {kind}: it has {size} bytes, and by its own header {told}", remedy=REMEDY
        )
    try:
        # Reads and checks the header alone: types, sizes, no gap and no overlap.
        with safe_open(str(file), framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise SourceError(f"the header of {file.name} is wrong: {error}", remedy=REMEDY) from error


def _read_header(file: Path, size: int) -> dict[str, Any]:
    length = _header_length(file)
    if size < LENGTH_BYTES or length > min(LONGEST_HEADER, size - LENGTH_BYTES):
        raise SourceError(
            f"{file.name} is no safetensors file, or cut short: it has {size} bytes, and its header alone "
            f"would be {length}",
            remedy=REMEDY,
        )
    with file.open("rb") as stream:
        stream.seek(LENGTH_BYTES)
        try:
            header = json.loads(stream.read(length))
        except ValueError as error:
            raise SourceError(f"the header of {file.name} is no JSON: {error}", remedy=REMEDY) from error
    if not isinstance(header, dict):
        raise SourceError(f"the header of {file.name} does not list tensors", remedy=REMEDY)
    return header


def _header_length(file: Path) -> int:
    with file.open("rb") as stream:
        return int.from_bytes(stream.read(LENGTH_BYTES), "little")


def _is_tensor(name: str, entry: Any) -> bool:
    """Whether an entry says where a tensor ends; one that does not is left to the library to complain of."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) and name != "__metadata__" else None
    return isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(item, int) for item in offsets)


def _check_index(index: Path) -> None:
    try:
        parts = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{index.name} does not say which tensor lies in which file: {error}") from error
    missing = [part for part in parts if not (index.parent / part).is_file()]
    if missing:
        raise SourceError(
            f"{index.name} names files that are not there: {', '.join(missing)}",
            remedy="fetch or copy the missing files too",
        )
