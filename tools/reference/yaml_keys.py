"""Describe the keys of a file by its JSON Schema: one section per mapping, with its place as heading."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from tools.reference.markdown import anchor, code, table

Schema = Mapping[str, Any]
KINDS = ("kind", "strategy")
"""The keys by which a file selects one of several forms."""
WORDS = {"integer": "whole number", "string": "text", "boolean": "`true` or `false`", "null": "`null`"}
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "minItems": "items: at least",
    "maxItems": "items: at most",
    "minLength": "characters: at least",
    "maxLength": "characters: at most",
}


class KeyTables:
    """The sections of one file."""

    def __init__(self, schema: Schema, *, top: str) -> None:
        self._schema = schema
        self._top = top
        self._headings = self._find_headings()

    def sections(self) -> Iterator[str]:
        """Yield one section per mapping, each followed by those of its keys."""
        for name in self._nested("", set()):
            definition = self._definition(name)
            if rows := [self._row(key, spec, definition) for key, spec in _properties(definition).items()]:
                parts = [f"## {self._headings[name]}", definition.get("description", "") if name else ""]
                yield "\n\n".join(part for part in [*parts, _keys(rows)] if part)

    def _definition(self, name: str) -> Schema:
        definition: Schema = self._schema["$defs"][name] if name else self._schema
        return definition

    def _nested(self, name: str, visited: set[str]) -> Iterator[str]:
        visited.add(name)
        yield name
        for spec in _properties(self._definition(name)).values():
            for inner, _ in _references(spec, ""):
                if inner not in visited:
                    yield from self._nested(inner, visited)

    def _find_headings(self) -> dict[str, str]:
        """Return the heading of each definition: the first place in the file where it may be."""
        headings = {"": self._top}
        waiting = deque([("", "")])
        while waiting:
            name, place = waiting.popleft()
            for key, spec in _properties(self._definition(name)).items():
                for inner, steps in _references(spec, f"{place}.{key}" if place else key):
                    if inner not in headings:
                        headings[inner] = self._heading(inner, steps)
                        waiting.append((inner, steps))
        return headings

    def _heading(self, name: str, place: str) -> str:
        fixed = _properties(self._definition(name))
        kinds = [f", {key} {_fixed(fixed[key])}" for key in KINDS if key in fixed and _fixed(fixed[key])]
        return f"{place}{''.join(kinds)}"

    def _row(self, key: str, spec: Schema, definition: Schema) -> tuple[str, str, str, str]:
        if key in definition.get("required", ()):
            default = "required"
        elif spec.get("default") is None or isinstance(spec["default"], Mapping | list):
            default = ""
        else:
            default = code(json.dumps(spec["default"], ensure_ascii=False))
        return code(key), self._values(spec), default, spec.get("description", "")

    def _values(self, spec: Schema) -> str:
        """Return what a key accepts."""
        if "$ref" in spec:
            name = spec["$ref"].rpartition("/")[2]
            if name not in self._headings or not _properties(self._definition(name)):
                return self._values(self._definition(name))
            heading = self._headings[name]
            return f"[{heading}](#{anchor(heading)})"
        for union in ("anyOf", "oneOf"):
            if union in spec:
                return " or ".join(dict.fromkeys(self._values(form) for form in spec[union]))
        if "const" in spec or "enum" in spec:
            return ", ".join(code(value) for value in spec.get("enum", [spec.get("const")]))
        return self._typed(spec)

    def _typed(self, spec: Schema) -> str:
        kind: str = spec.get("type", "any")
        limits = [f"{words} {spec[bound]}" for bound, words in BOUNDS.items() if bound in spec]
        if "pattern" in spec:
            limits.append(f"matches {code(spec['pattern'])}")
        if kind == "array":
            items = spec.get("items") or {"anyOf": spec.get("prefixItems", [{}])}
            kind = f"list of {self._values(items)}"
        elif kind == "object":
            values = spec.get("additionalProperties", {})
            kind = f"names with {self._values(values) if isinstance(values, Mapping) else 'any'}"
        return ", ".join([WORDS.get(kind, kind), *limits])


def _keys(rows: list[tuple[str, str, str, str]]) -> str:
    return table(("key", "values", "default", "meaning"), rows)


def _properties(definition: Schema) -> Schema:
    properties: Schema = definition.get("properties", {})
    return properties


def _fixed(spec: Schema) -> str:
    return " or ".join(spec.get("enum", [spec["const"]] if "const" in spec else []))


def _references(spec: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the definitions that a key may hold, each with its place in the file."""
    if isinstance(spec, list):
        for item in spec:
            yield from _references(item, place)
    elif isinstance(spec, Mapping):
        if "$ref" in spec:
            yield spec["$ref"].rpartition("/")[2], place
        for key, inner in spec.items():
            if key == "additionalProperties":
                yield from _references(inner, f"{place}.NAME")
            elif key in ("items", "prefixItems"):
                yield from _references(inner, f"{place}[]")
            elif key in ("anyOf", "oneOf"):
                yield from _references(inner, place)
