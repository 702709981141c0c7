"""Check whether a safetensors file is complete, by its size and header: fast for files of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tritonstack.base.files import parse_json

LENGTH_BYTES = 8
LONGEST_HEADER = 100_000_000
REMEDY = "download or copy the file again, and compare its size with the original's"


def header_violation(file: Path, name: str | None = None) -> str | None:
    """Return what is wrong with a file's header or size; None if it is complete."""
    name = name or file.name
    size, length = file.stat().st_size, _header_length(file)
    if size < LENGTH_BYTES or length > min(LONGEST_HEADER, size - LENGTH_BYTES):
        return (
            f"{name} is truncated or not a safetensors file: it has {size} bytes, but its header alone "
            f"would have {length}"
        )
    with file.open("rb") as stream:
        stream.seek(LENGTH_BYTES)
        try:
            header = parse_json(stream.read(length), limit_bytes=LONGEST_HEADER)
        except ValueError as error:
            return f"the header of {name} is not JSON: {error}"
    if not isinstance(header, dict):
        return f"the header of {name} does not list tensors"
    ends = [entry["data_offsets"][1] for key, entry in header.items() if _is_tensor(key, entry)]
    declared = LENGTH_BYTES + length + max(ends, default=0)
    if size != declared:
        kind = "truncated" if size < declared else "too long"
        return f"{name} is {kind}: got {size} bytes, expected {declared} according to its header"
    return None


def _header_length(file: Path) -> int:
    with file.open("rb") as stream:
        return int.from_bytes(stream.read(LENGTH_BYTES), "little")


def _is_tensor(name: str, entry: Any) -> bool:
    """Check whether an entry has a tensor's end offset; the library reports other entries."""
    offsets = entry.get("data_offsets") if isinstance(entry, dict) and name != "__metadata__" else None
    return isinstance(offsets, list) and len(offsets) == 2 and all(isinstance(item, int) for item in offsets)
