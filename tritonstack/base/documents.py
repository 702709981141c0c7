"""Load YAML files into typed records and report every error with file, line, field, and remedy.

`yaml.compose` gives the line of each key, pydantic checks the values, and pydantic's errors are reworded in
terms of the file.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails

from tritonstack.base.choices import Choice, conflicts
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.record_shapes import branches_at, known_keys
from tritonstack.base.yaml_reading import (
    MAX_VIOLATIONS,
    FieldPath,
    field_text,
    holds,
    nearest_line,
    parse_yaml,
    read_text,
    value_at,
)

__all__ = [
    "ContradictionError",
    "Document",
    "FieldPath",
    "Record",
    "RecordT",
    "Violation",
    "check_data",
    "check_distinct",
    "closest",
    "load_document",
    "parse_document",
    "raise_violations",
]


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

_NO_VALUE = "key has no value"

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

_FROM_A_FILE: dict[str, str] = {}
"""Validation context of data from a file. Python code may pass None for an absent value; a file may not."""


class Record(BaseModel):
    """Data from a file: immutable, and unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        # Without this, NaN and infinity in test inputs all become null, and their models' hashes are equal.
        ser_json_inf_nan="strings",
        use_attribute_docstrings=True,
    )
    alternatives: ClassVar[tuple[Choice, ...]] = ()
    """Fields that exclude each other."""

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        raise_violations(
            Violation((), choice.message(given), choice.remedy(given), code="TS114" if given else "TS106")
            for choice in self.alternatives
            for given in [[f"`{name}`" for name in choice.names if self._is_given(name)]]
            if choice.is_violated_by(given)
        )
        return self

    def _is_given(self, name: str) -> bool:
        return getattr(self, name) not in (None, type(self).model_fields[name].default)

    @model_validator(mode="after")
    def _reject_empty_keys(self, info: ValidationInfo) -> Self:
        # In a file, `asynchronous:` without a value looks like a choice but would mean the default.
        if info.context is not _FROM_A_FILE:
            return self
        raise_violations(
            Violation(
                (name,),
                _NO_VALUE,
                "write `{}` for the defaults, give a value, or remove the key",
                code="TS107",
            )
            for name in sorted(self.model_fields_set)
            if getattr(self, name) is None and any(branches_at(type(self).model_fields[name].annotation, ()))
        )
        return self


RecordT = TypeVar("RecordT", bound=Record)


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


def raise_violations(violations: Iterable[Violation]) -> None:
    """Raise ContradictionError if there are any violations."""
    found = tuple(dict.fromkeys(violations))
    if found:
        raise ContradictionError(found)


def check_distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    """Check that a list has no duplicates."""
    first: dict[str, int] = {}
    raise_violations(
        Violation((index,), f"duplicate item {item!r}", "keep one of the two", code="TS113")
        for index, item in enumerate(items)
        if first.setdefault(item, index) != index
    )
    return items


@dataclass(frozen=True)
class Document(Generic[RecordT]):
    """A record together with its file and line numbers."""

    record: RecordT
    file: Path
    lines: Mapping[FieldPath, int]

    def line_of(self, path: FieldPath) -> int | None:
        """Return the line of a field, or of its nearest parent that has a line."""
        return nearest_line(self.lines, path)

    def violation(
        self, path: FieldPath, message: str, *, code: str, remedy: str | None = None
    ) -> FileViolation:
        """Describe an error at one field of this file."""
        return FileViolation(self.file, self.line_of(path), field_text(path), message, remedy, code=code)


def load_document(file: Path, record_type: type[RecordT]) -> Document[RecordT]:
    """Read and check one file; report all its errors at once."""
    return parse_document(read_text(file), file, record_type)


def parse_document(text: str, file: Path, record_type: type[RecordT]) -> Document[RecordT]:
    """Check the text of a file."""
    data, lines = parse_yaml(text, file)
    return check_data(file, data, lines, record_type)


def check_data(
    file: Path, data: Any, lines: Mapping[FieldPath, int], record_type: type[RecordT]
) -> Document[RecordT]:
    """Check the data of a file."""
    try:
        record = TypeAdapter(record_type).validate_json(_to_json(data), context=_FROM_A_FILE)
    except ValidationError as error:
        several = list(conflicts(record_type, data))
        raise InvalidFilesError(
            [
                *(conflict.violation(file, lines) for conflict in several),
                *(
                    violation
                    for details in error.errors(include_url=False)[:MAX_VIOLATIONS]
                    if not any(conflict.explains(_path_of(details, data)) for conflict in several)
                    for violation in _violations(file, lines, data, record_type, details)
                ),
            ]
        ) from None
    return Document(record, file, lines)


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a misspelled word most likely means."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _to_json(data: Any) -> bytes:
    # In JSON mode, strict validation accepts YAML's forms (lists for tuples, text for enums)
    # and still rejects numbers in place of text and the reverse.
    return json.dumps(data).encode()


def _violations(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], details: ErrorDetails
) -> Iterator[FileViolation]:
    path = _path_of(details, data)
    if details["type"] == "too_short" and len(value_at(data, path) or ()) >= details["ctx"]["min_length"]:
        return  # pydantic counts the valid items only
    error = details.get("ctx", {}).get("error")
    if isinstance(error, ContradictionError):
        for violation in error.violations:
            place = (*path, *violation.path)
            yield FileViolation(
                file,
                nearest_line(lines, place),
                field_text(place),
                violation.message,
                violation.remedy,
                code=violation.code,
            )
        return
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        # The discriminator key selects the record type: without it, nothing else here can be checked.
        tag = str(details.get("ctx", {}).get("discriminator")).strip("'")
        if details["type"] == "union_tag_not_found":
            yield from _unknown_keys(file, lines, details["input"], record_type, path)
        path = (*path, tag)
    if details["type"] != "extra_forbidden" and _has_no_value(data, path):
        code, message, remedy = "TS107", _NO_VALUE, _value_remedy(record_type, path)
    else:
        code = _CODES.get(details["type"], _CODES["value_error"])
        message, remedy = _described(record_type, data, path, details)
    yield FileViolation(file, nearest_line(lines, path), field_text(path), message, remedy, code=code)


def _has_no_value(data: Any, path: FieldPath) -> bool:
    """Check whether the last part of a path is a key that is followed by nothing."""
    if not path or not isinstance(path[-1], str):
        return False
    return holds(value_at(data, path[:-1]), path[-1]) and value_at(data, path) is None


def _value_remedy(record_type: type[Record], path: FieldPath) -> str | None:
    fields = [branch.record.model_fields for branch in branches_at(record_type, path[:-1])]
    required = any(path[-1] in known and known[str(path[-1])].is_required() for known in fields)
    return "give a value" if required else "give a value, or remove the key"


def _unknown_keys(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], path: FieldPath
) -> Iterator[FileViolation]:
    known = sorted(known_keys(record_type, path))
    for key in data if isinstance(data, dict) else ():
        if key not in known:
            place = (*path, key)
            yield FileViolation(
                file,
                nearest_line(lines, place),
                field_text(place),
                "unknown key",
                _other_key(key, known),
                code="TS104",
            )


def _unknown_key(record_type: type[Record], data: Any, path: FieldPath) -> tuple[str, str]:
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


def _path_of(details: ErrorDetails, data: Any) -> FieldPath:
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
    record_type: type[Record], data: Any, path: FieldPath, details: ErrorDetails
) -> tuple[str, str | None]:
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
