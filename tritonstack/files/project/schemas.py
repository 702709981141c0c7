"""The JSON Schemas of the files people edit. `python -m tools.schemas` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tritonstack.base.yaml import Record
from tritonstack.files.environment.delivery import DeliverySpec
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import HEAD, TemplateHead
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.locks import Lock

FOLDER = Path(__file__).parent / "schemas"

_RECORDS: dict[str, type[Record]] = {
    "model": ModelSpec,
    "environment": EnvironmentSpec,
    "lock": Lock,
    "delivery": DeliverySpec,
}


_PLACE = {"type": "string", "pattern": r"\$\{[^}]*\}"}
"""A template parameter in place of a value of any type."""
_SCALARS = ("integer", "number", "boolean", "string")


def schema_files() -> Iterator[tuple[Path, str]]:
    """Yield each schema file and its text."""
    schemas = {name: record_type.model_json_schema() for name, record_type in _RECORDS.items()}
    schemas["template"] = _template_schema(schemas["environment"])
    for name, body in schemas.items():
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **body}
        yield FOLDER / f"{name}.schema.json", json.dumps(schema, indent=2) + "\n"


def _template_schema(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment schema, extended with template parameters and the `template:` block."""
    head = TemplateHead.model_json_schema()
    schema: dict[str, Any] = _with_places(environment)
    return schema | {
        "description": "A template for temporary environments.",
        "properties": {HEAD: head, **schema["properties"]},
        "required": [HEAD, *environment["required"]],
        "title": "Template",
    }


def _with_places(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_places(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    if schema.get("type") in _SCALARS and "const" not in schema:
        return {"anyOf": [schema, _PLACE]}
    # Mapping keys and discriminators cannot be parameters.
    keys = ("propertyNames", "discriminator", "required", "default")
    return {key: value if key in keys else _with_places(value) for key, value in schema.items()}
