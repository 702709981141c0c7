"""Read the JSON files of a source: settings, lists of modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model_build.errors import ExportError
from tritonstack.base.files import read_json


def read_settings_file(folder: Path, name: str, kind: type[Any] = dict, *, required: bool = False) -> Any:
    """Return the content of a file, which must be of this type; empty if it is missing."""
    file = folder / name
    if not required and not file.is_file():
        return kind()
    try:
        content = read_json(file)
    except (OSError, ValueError) as error:
        raise ExportError(
            f"{name} cannot be read as JSON: {error}", remedy="fetch or copy the file again"
        ) from error
    if not isinstance(content, kind):
        raise ExportError(
            f"{name}: expected a {kind.__name__}, got a {type(content).__name__}",
            remedy="save the model again with the library that wrote it",
        )
    return content
