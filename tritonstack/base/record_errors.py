"""Describe pydantic's errors in terms of a file: path, message, remedy, and error code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from tritonstack.base.record_shapes import branches_at, closest, known_keys
from tritonstack.base.yaml_reading import FieldPath, field_text, holds, value_at

NO_VALUE = "key has no value"
_TYPE_NAMES = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "string_type": "text",
}
"""Expected type by pydantic's error type."""
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}

_CODES = {
    "extra_forbidden": "TS104",
    "missing": "TS106",
    "union_tag_not_found": "TS106",
    **dict.fromkeys(_TYPE_NAMES, "TS108"),
    "literal_error": "TS109",
    "enum": "TS109",
    "union_tag_invalid": "TS109",
    **dict.fromkeys(_BOUNDS, "TS110"),
    "value_error": "TS111",
    "too_short": "TS112",
    "too_long": "TS112",
    "string_too_short": "TS112",
    "string_too_long": "TS112",
}
"""Error code by pydantic's error type. All other types are invalid values."""


@dataclass(frozen=True)
class Violation:
    """An error in one field of a record, given the other fields."""

    path: FieldPath
    """Path from the record to the field to change."""
    message: str
    remedy: str
    _: KW_ONLY
    code: str


class ContradictionError(ValueError):
    """Fields of a record contradict each other. The record's validator raises it with all errors found."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__(
            "; ".join(f"{field_text(violation.path)}: {violation.message}" for violation in self.violations)
        )


def violations_in(record_type: type[BaseModel], data: Any, details: ErrorDetails) -> Iterator[Violation]:
    """Describe one of pydantic's errors in the data of a file."""
    path = path_of(details, data)
    kind, context = details["type"], details.get("ctx", {})
    if kind == "too_short" and len(value_at(data, path) or ()) >= context["min_length"]:
        return  # pydantic counts the valid items only
    error = context.get("error")
    if isinstance(error, ContradictionError):
        for violation in error.violations:
            yield replace(violation, path=(*path, *violation.path))
        return
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        # The discriminator key selects the record type: without it, nothing else here can be checked.
        if kind == "union_tag_not_found":
            yield from _unknown_keys(record_type, details["input"], path)
        path = (*path, str(context.get("discriminator")).strip("'"))
    if kind != "extra_forbidden" and _has_no_value(data, path):
        yield Violation(path, NO_VALUE, _value_remedy(record_type, path), code="TS107")
    else:
        message, remedy = _described(record_type, data, path, details)
        yield Violation(path, message, remedy, code=_CODES.get(kind, _CODES["value_error"]))


def _has_no_value(data: Any, path: FieldPath) -> bool:
    """Check whether the last part of a path is a key that is followed by nothing."""
    if not path or not isinstance(path[-1], str):
        return False
    return holds(value_at(data, path[:-1]), path[-1]) and value_at(data, path) is None


def _value_remedy(record_type: type[BaseModel], path: FieldPath) -> str:
    fields = [branch.record.model_fields for branch in branches_at(record_type, path[:-1])]
    required = any(path[-1] in known and known[str(path[-1])].is_required() for known in fields)
    return "give a value" if required else "give a value, or remove the key"


def _unknown_keys(record_type: type[BaseModel], data: Any, path: FieldPath) -> Iterator[Violation]:
    known = sorted(known_keys(record_type, path))
    for key in data if isinstance(data, dict) else ():
        if key not in known:
            yield Violation((*path, key), "unknown key", _other_key(key, known), code="TS104")


def _unknown_key(record_type: type[BaseModel], data: Any, path: FieldPath) -> tuple[str, str]:
    """Describe an unknown key, including a key that belongs to another record type of the same union."""
    key, place = str(path[-1]), path[:-1]
    known = sorted(known_keys(record_type, place, data))
    if closest(key, known) is None:
        for branch in branches_at(record_type, place):
            if branch.tag and key in branch.record.model_fields:
                return (
                    f"{branch.tag}: {value_at(data, place)[branch.tag]} does not support this key; "
                    f"{branch.tag}: {' or '.join(branch.values)} does",
                    f"remove it; known keys here: {', '.join(known)}",
                )
    return "unknown key", _other_key(key, known)


def _other_key(key: str, known: list[str]) -> str:
    suggestion = closest(key, known)
    return f"did you mean '{suggestion}'?" if suggestion else f"known keys here: {', '.join(known)}"


def path_of(details: ErrorDetails, data: Any) -> FieldPath:
    """Return pydantic's location without the parts that name a union's branch."""
    location, missing = details["loc"], details["type"] == "missing"
    path: list[str | int] = []
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if holds(data, part):
            data = data[part]
        elif not (last and missing):
            continue
        path.append(part)
    return tuple(path)


def _described(
    record_type: type[BaseModel], data: Any, path: FieldPath, details: ErrorDetails
) -> tuple[str, str]:
    """Return the message and the remedy for one of pydantic's errors."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(record_type, data, path)
    if kind in ("missing", "union_tag_not_found"):
        return "required key is missing", f"add the key `{path[-1]}`"
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        allowed = str(context.get("expected") or context.get("expected_tags"))
        allowed = " or ".join(allowed.rsplit(", ", 1)) if kind == "union_tag_invalid" else allowed
        received = context.get("tag", value)
        suggestion = closest(
            str(received), [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")]
        )
        return (
            f"{received!r} is not one of {allowed}",
            f"did you mean '{suggestion}'?" if suggestion else f"write {allowed}",
        )
    if kind == "string_type" and isinstance(value, int | float):
        found = str(value).lower() if isinstance(value, bool) else f"the number {value}"
        return f"expected text, got {found}", "put it in quotes"
    if kind == "value_error":
        text, _, remedy = str(context["error"]).partition("; ")
        return text, remedy or "correct this value"
    return _type_message(kind, value, context) or (
        f"{details['msg']} (found {value!r})",
        "correct this value",
    )


def _type_message(kind: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str] | None:
    """Describe a value of the wrong type or size in YAML terms."""
    if kind in _TYPE_NAMES:
        found = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
        return f"expected {_TYPE_NAMES[kind]}, got {found}", f"write {_TYPE_NAMES[kind]}"
    if kind in _BOUNDS:
        comparison, key = _BOUNDS[kind]
        bound = f"a number {comparison} {context[key]:g}"
        return f"expected {bound}, got {value}", f"write {bound}"
    if kind == "string_pattern_mismatch":
        return f"{value!r} does not match the pattern {context['pattern']}", "write text of this form"
    if kind == "too_short":
        return (
            f"expected at least {_items(context['min_length'])}, got {context['actual_length']}",
            "add an item",
        )
    if kind == "too_long":
        return f"expected at most {_items(context['max_length'])}", "remove some"
    return None


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"
