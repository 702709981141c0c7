"""Describe pydantic's errors in terms of a file: path, message, remedy, and error code.

Also what records allow at a path of a file: their keys, the closest one, and fields that exclude each other.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from tritonstack.base.error_kinds import (
    InvalidValueError,
    MissingKeyError,
    UnavailableOptionError,
    UnknownKeyError,
)
from tritonstack.base.errors import FieldPath, FileViolation, TritonstackError, Violation, closest, suggest
from tritonstack.base.yaml.parsing import field_text, holds, in_file, nearest_line, value_at

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

_KINDS: dict[str, type[TritonstackError]] = {
    "extra_forbidden": UnknownKeyError,
    "missing": MissingKeyError,
    "union_tag_not_found": MissingKeyError,
}
"""Kind of error by pydantic's error type. All other types are invalid values."""


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
        yield MissingKeyError.at(path, NO_VALUE, _value_remedy(record_type, path))
    else:
        message, remedy = _described(record_type, data, path, details)
        yield _KINDS.get(kind, InvalidValueError).at(path, message, remedy)


def _has_no_value(data: Any, path: FieldPath) -> bool:
    """Check whether the last part of a path is a key that is followed by nothing."""
    if not path or not isinstance(path[-1], str):
        return False
    return holds(value_at(data, path[:-1]), path[-1]) and value_at(data, path) is None


def _value_remedy(record_type: type[BaseModel], path: FieldPath) -> str:
    fields = [branch.record.model_fields for branch in branches_at(record_type, path[:-1])]
    required = any(path[-1] in declared and declared[str(path[-1])].is_required() for declared in fields)
    return "give a value" if required else "give a value, or remove the key"


def _unknown_keys(record_type: type[BaseModel], data: Any, path: FieldPath) -> Iterator[Violation]:
    keys = sorted(known_keys(record_type, path))
    for key in data if isinstance(data, dict) else ():
        if key not in keys:
            yield UnknownKeyError.at((*path, key), "unknown key", _other_key(key, keys))


def _unknown_key(record_type: type[BaseModel], data: Any, path: FieldPath) -> tuple[str, str]:
    """Describe an unknown key, including a key that belongs to another record type of the same union."""
    key, place = str(path[-1]), path[:-1]
    keys = sorted(known_keys(record_type, place, data))
    if closest(key, keys) is None:
        for branch in branches_at(record_type, place):
            if branch.tag and key in branch.record.model_fields:
                return (
                    f"{branch.tag}: {value_at(data, place)[branch.tag]} does not support this key; "
                    f"{branch.tag}: {' or '.join(branch.values)} does",
                    f"remove it; known keys here: {', '.join(keys)}",
                )
    return "unknown key", _other_key(key, keys)


def _other_key(key: str, keys: list[str]) -> str:
    return suggest(key, keys, f"known keys here: {', '.join(keys)}")


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
        return (
            f"{received!r} is not one of {allowed}",
            suggest(
                str(received),
                [word.strip(" '") for word in allowed.replace(" or ", ",").split(",")],
                f"write {allowed}",
            ),
        )
    if kind == "string_type" and isinstance(value, int | float):
        literal = str(value).lower() if isinstance(value, bool) else f"the number {value}"
        return f"expected text, got {literal}", "put it in quotes"
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
        literal = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
        return f"expected {_TYPE_NAMES[kind]}, got {literal}", f"write {_TYPE_NAMES[kind]}"
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


@dataclass(frozen=True)
class Branch:
    """A record type allowed at a path. If there are several, a tag key selects one by its value."""

    record: type[BaseModel]
    tag: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """The tag's values that select this record type."""
        return get_args(self.record.model_fields[self.tag].annotation) if self.tag else ()

    def is_chosen_by(self, data: Any) -> bool:
        """Check whether data selects this record type, or has no tag."""
        return not (self.tag and isinstance(data, dict) and self.tag in data) or data[self.tag] in self.values


def known_keys(record_type: Any, path: FieldPath, data: Any = None) -> set[str]:
    """Return the keys that the field at `path` allows; `data` selects among several record types."""
    branches = branches_at(record_type, path, data)
    return set().union(*(branch.record.model_fields for branch in branches))


def branches_at(
    annotation: Any, path: FieldPath, data: Any = None, tag: str | None = None
) -> Iterator[Branch]:
    """Yield the record types allowed at `path`; `data` selects among several."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        tags = [note.discriminator for note in arguments[1:] if isinstance(note, FieldInfo)]
        yield from branches_at(
            arguments[0],
            path,
            data,
            next((str(discriminator) for discriminator in tags if discriminator), tag),
        )
    elif origin in (Union, types.UnionType):
        for argument in arguments:
            yield from branches_at(argument, path, data, tag)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        branch = Branch(annotation, tag)
        if branch.is_chosen_by(data):
            yield from _within(branch, path, data)
    elif path and (origin in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Mapping))):
        inner = arguments[-1] if arguments[-1] is not Ellipsis else arguments[0]
        yield from branches_at(inner, path[1:], value_at(data, path[:1]))


def _within(branch: Branch, path: FieldPath, data: Any) -> Iterator[Branch]:
    if not path:
        yield branch
    elif field := branch.record.model_fields.get(str(path[0])):
        # pydantic moves the discriminator of a field's own annotation into the field.
        tag = field.discriminator if isinstance(field.discriminator, str) else None
        yield from branches_at(field.annotation, path[1:], value_at(data, path[:1]), tag)


@dataclass(frozen=True)
class Choice:
    """Fields of which exactly one is given, or at most one."""

    names: tuple[str, ...]
    required: bool = True

    def message(self, fields: Sequence[str]) -> str:
        """Describe a wrong number of fields; `given` are their descriptions."""
        quantity = "exactly" if self.required else "at most"
        return (
            f"expected {quantity} one of {_listed([f'`{name}`' for name in self.names])}, "
            f"got {_listed(fields) if fields else 'none'}"
        )

    def remedy(self, fields: Sequence[str]) -> str:
        """Return the remedy for a wrong number of fields."""
        if not fields:
            return "add one of them"
        return "remove one of the two" if len(fields) == 2 else "keep one of them, and remove the others"

    def is_violated_by(self, fields: Sequence[str]) -> bool:
        """Check whether these are too many fields or too few."""
        return len(fields) > 1 or (self.required and not fields)


class Conflict(NamedTuple):
    """A mapping of a file with several fields of one choice."""

    path: FieldPath
    choice: Choice
    given: tuple[str, ...]

    def violation(self, file: Path, lines: Mapping[FieldPath, int]) -> FileViolation:
        """Describe the conflict, with the line of each field."""
        fields = [f"`{name}` (line {nearest_line(lines, (*self.path, name))})" for name in self.given]
        place = (*self.path, self.given[-1])
        violation = UnavailableOptionError.at(place, self.choice.message(fields), self.choice.remedy(fields))
        return in_file(violation, file, lines)

    def explains(self, path: FieldPath) -> bool:
        """Check whether an error at a path is in the mapping as a whole, or in a field of the choice."""
        depth = len(self.path)
        return path[:depth] == self.path and (len(path) == depth or path[depth] in self.choice.names)


def conflicts(record_type: Any, data: Any) -> Iterator[Conflict]:
    """Yield the choices of which a file gives several fields; their values can be invalid."""
    for path, mapping in _mappings(data, ()):
        for branch in branches_at(record_type, path, data):
            for choice in getattr(branch.record, "alternatives", ()):
                names = tuple(name for name in choice.names if mapping.get(name) not in (None, False, []))
                if len(names) > 1:
                    yield Conflict(path, choice, names)


def _mappings(data: Any, path: FieldPath) -> Iterator[tuple[FieldPath, dict[Any, Any]]]:
    if isinstance(data, dict):
        yield path, data
        for key, value in data.items():
            yield from _mappings(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _mappings(value, (*path, index))


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)}{',' if len(others) > 1 else ''} and {last}" if others else last
