"""Looks into safetensors files before anything loads them: a truncated or lying header is told as such."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open

from catalog.safetensors_header import REMEDY, header_fault
from model_build.errors import SourceError

INDEX_SUFFIX = ".safetensors.index.json"


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
    if fault := header_fault(file):
        raise SourceError(fault, remedy=REMEDY)
    try:
        # Reads and checks the header alone: types, sizes, no gap and no overlap.
        with safe_open(str(file), framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise SourceError(f"the header of {file.name} is wrong: {error}", remedy=REMEDY) from error


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
