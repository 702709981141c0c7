"""Describe the JSON documents that commands print, from the types of their results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tools.command_results import RESULTS
from tools.reference.markdown import code, table
from tritonstack.base.results import schema
from tritonstack.cli.output import ErrorDocument

Row = tuple[str, str, str]


def sections() -> Iterator[str]:
    """Yield a section per command, and one for errors."""
    for name, result in {**RESULTS, "error": ErrorDocument}.items():
        body = schema(result)
        rows = dict.fromkeys(_rows("", body, body.get("$defs", {})))
        cells = ((code(key), kind, meaning) for key, kind, meaning in rows)
        yield f"## {name}\n\n{table(('key', 'type', 'meaning'), cells)}"


def _rows(path: str, node: dict[str, Any], definitions: dict[str, Any]) -> Iterator[Row]:
    """Yield each key below a node of a schema: its path, type, and meaning."""
    for option in _options(node, definitions):
        for name, child in option.get("properties", {}).items():
            key = f"{path}.{name}".removeprefix(".")
            types = dict.fromkeys(_type(kind) for kind in _options(child, definitions))
            yield key, " or ".join(types), re.sub(r"\bNone\b", "null", child.get("description", ""))
            yield from _rows(key, child, definitions)
        for name, child in (("[]", option.get("items")), (".NAME", option.get("additionalProperties"))):
            if isinstance(child, dict):
                yield from _rows(f"{path}{name}".removeprefix("."), child, definitions)


def _options(node: dict[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the alternatives of a node, without references."""
    if "$ref" in node:
        yield from _options(definitions[node["$ref"].rpartition("/")[2]], definitions)
    elif choices := node.get("anyOf") or node.get("oneOf"):
        for choice in choices:
            yield from _options(choice, definitions)
    else:
        yield node


def _type(node: dict[str, Any]) -> str:
    values = node.get("enum") or ([node["const"]] if "const" in node else [])
    if values:
        return ", ".join(code(value) for value in values)
    return {"array": "list"}.get(kind := str(node.get("type", "any")), kind)
