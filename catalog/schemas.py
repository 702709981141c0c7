"""JSON Schemas of the files people write, for editors; `python -m catalog.schemas` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from catalog.documents import Record
from catalog.environments import EnvironmentSpec
from catalog.files import write_text_atomically
from catalog.locks import Lock
from catalog.models import ModelSpec

FOLDER = Path(__file__).parent / "schemas"

_RECORDS: dict[str, type[Record]] = {"model": ModelSpec, "environment": EnvironmentSpec, "lock": Lock}


def schema_files() -> Iterator[tuple[Path, str]]:
    """Each schema's file and its text."""
    for name, record_type in _RECORDS.items():
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **record_type.model_json_schema(),
        }
        yield FOLDER / f"{name}.schema.json", json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    for file, text in schema_files():
        changed = write_text_atomically(file, text)
        print(f"{'wrote' if changed else 'kept '} {file}")
