"""YAML files into typed records, with every fault named by file, line, field and remedy.

A file is read once: `yaml.compose` gives the line of each key, pydantic checks the values, and what
pydantic objects to is said again in the words of the file.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails

from tritonstack.base.errors import FileProblem, InvalidFilesError
from tritonstack.base.record_shapes import branches_at, known_keys
from tritonstack.base.yaml_reading import (
    MAX_FAULTS,
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
    "Fault",
    "FieldPath",
    "Record",
    "RecordT",
    "check_data",
    "check_distinct",
    "closest",
    "load_document",
    "parse_document",
    "refuse",
]


_SORTS = {
    "model_type": "keys with their values",
    "model_attributes_type": "keys with their values",
    "dict_type": "keys with their values",
    "mapping_type": "keys with their values",
    "tuple_type": "a list",
    "list_type": "a list",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_type": "true or false",
    "string_type": "text",
}
"""What pydantic asks for, by the name of its complaint."""
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


_FROM_A_FILE: dict[str, str] = {}
"""The context of what a file says; Python may say None for what is not there."""


class Record(BaseModel):
    """What comes from a file: unknown keys are errors, and nothing changes after it was read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        # NaN and infinity among test inputs would all be null, and a model's hash the same for each.
        ser_json_inf_nan="strings",
        use_attribute_docstrings=True,
    )

    @model_validator(mode="after")
    def _nothing_is_left_open(self, info: ValidationInfo) -> Self:
        # In a file, `asynchronous:` with nothing behind it reads like a choice, and would be none.
        if info.context is not _FROM_A_FILE:
            return self
        refuse(
            Fault(
                (name,),
                "nothing stands behind this key",
                "write `{}` if its defaults will do, or what it is to be, or remove the key",
            )
            for name in sorted(self.model_fields_set)
            if getattr(self, name) is None and any(branches_at(type(self).model_fields[name].annotation, ()))
        )
        return self


RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class Fault:
    """What is wrong with one field of a record, in the light of the others."""

    path: FieldPath
    """From the record to the field that has to change."""
    message: str
    remedy: str


class ContradictionError(ValueError):
    """Fields of a record that do not go together. A record's validator raises it with all it found."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{field_text(fault.path)}: {fault.message}" for fault in self.faults))


def refuse(faults: Iterable[Fault]) -> None:
    """Raise what was found, if anything was."""
    found = tuple(dict.fromkeys(faults))
    if found:
        raise ContradictionError(found)


def check_distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    """A list whose items are all different: what AWS makes of each bears the item's own name."""
    first: dict[str, int] = {}
    refuse(
        Fault((index,), f"{item!r} stands twice", "keep one of the two")
        for index, item in enumerate(items)
        if first.setdefault(item, index) != index
    )
    return items


@dataclass(frozen=True)
class Document(Generic[RecordT]):
    """A record together with the file and the lines it came from."""

    record: RecordT
    file: Path
    lines: Mapping[FieldPath, int]

    def line_of(self, path: FieldPath) -> int | None:
        """The line of a field, or of the nearest thing around it that the file spells out."""
        return nearest_line(self.lines, path)

    def problem(self, path: FieldPath, message: str, *, remedy: str | None = None) -> FileProblem:
        """A fault at one field of this file."""
        return FileProblem(self.file, self.line_of(path), field_text(path), message, remedy)


def load_document(file: Path, record_type: type[RecordT]) -> Document[RecordT]:
    """Read and check one file; every fault in it is reported at once."""
    return parse_document(read_text(file), file, record_type)


def parse_document(text: str, file: Path, record_type: type[RecordT]) -> Document[RecordT]:
    """Check what a file holds, or held at some time."""
    data, lines = parse_yaml(text, file)
    return check_data(file, data, lines, record_type)


def check_data(
    file: Path, data: Any, lines: Mapping[FieldPath, int], record_type: type[RecordT]
) -> Document[RecordT]:
    """Check what a file was read into, or what was made of that."""
    try:
        record = TypeAdapter(record_type).validate_json(_to_json(data), context=_FROM_A_FILE)
    except ValidationError as error:
        raise InvalidFilesError(
            problem
            for details in error.errors(include_url=False)[:MAX_FAULTS]
            for problem in _problems(file, lines, data, record_type, details)
        ) from None
    return Document(record, file, lines)


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word a misspelt one most likely meant."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def _to_json(data: Any) -> bytes:
    # JSON mode makes strict validation accept what YAML can spell (lists for tuples, text for enums)
    # while numbers in place of text, and the reverse, stay errors.
    return json.dumps(data).encode()


def _problems(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], details: ErrorDetails
) -> Iterator[FileProblem]:
    path = _path_in_file(details["loc"], data, missing=details["type"] == "missing")
    error = details.get("ctx", {}).get("error")
    if isinstance(error, ContradictionError):
        for fault in error.faults:
            place = (*path, *fault.path)
            yield FileProblem(
                file, nearest_line(lines, place), field_text(place), fault.message, fault.remedy
            )
        return
    if details["type"] in ("union_tag_invalid", "union_tag_not_found"):
        # The field that says which of several records this is: without it nothing else in here is checked.
        tag = str(details.get("ctx", {}).get("discriminator")).strip("'")
        if details["type"] == "union_tag_not_found":
            yield from _unknown_keys(file, lines, details["input"], record_type, path)
        path = (*path, tag)
    message, remedy = _in_words(record_type, data, path, details)
    yield FileProblem(file, nearest_line(lines, path), field_text(path), message, remedy)


def _unknown_keys(
    file: Path, lines: Mapping[FieldPath, int], data: Any, record_type: type[Record], path: FieldPath
) -> Iterator[FileProblem]:
    known = sorted(known_keys(record_type, path))
    for key in data if isinstance(data, dict) else ():
        if key not in known:
            place = (*path, key)
            yield FileProblem(
                file, nearest_line(lines, place), field_text(place), "unknown key", _other_key(key, known)
            )


def _unknown_key(record_type: type[Record], data: Any, path: FieldPath) -> tuple[str, str]:
    """What is wrong with a key that a record does not have; a record that could stand there may have it."""
    key, place = str(path[-1]), path[:-1]
    known = sorted(known_keys(record_type, place, data))
    if closest(key, known) is None:
        for branch in branches_at(record_type, place):
            if branch.tag and key in branch.record.model_fields:
                return (
                    f"{branch.tag}: {value_at(data, place)[branch.tag]} has no such key, "
                    f"{branch.tag}: {' or '.join(branch.values)} has",
                    f"remove it; known keys here: {', '.join(known)}",
                )
    return "unknown key", _other_key(key, known)


def _other_key(key: str, known: list[str]) -> str:
    suggestion = closest(key, known)
    return f"did you mean '{suggestion}'?" if suggestion else f"known keys here: {', '.join(known)}"


def _path_in_file(location: FieldPath, data: Any, *, missing: bool) -> FieldPath:
    """pydantic's location without the parts that name a union's branch rather than a place in the file."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if holds(data, part):
            data = data[part]
        elif not (last and missing):
            continue
        path.append(part)
    return tuple(path)


def _in_words(
    record_type: type[Record], data: Any, path: FieldPath, details: ErrorDetails
) -> tuple[str, str | None]:
    """What is wrong and what to do, for one of pydantic's complaints."""
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(record_type, data, path)
    if kind in ("missing", "union_tag_not_found"):
        return "this required key is missing", f"add the key `{path[-1]}`"
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
        return f"this must be text, not {found}", "put it in quotes"
    if kind == "value_error":
        text, _, remedy = str(context["error"]).partition("; ")
        return text, remedy or "correct this value"
    return _of_another_sort(kind, value, context) or (
        f"{details['msg']} (found {value!r})",
        "correct this value",
    )


def _of_another_sort(kind: str, value: Any, context: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a value of the wrong type or size, in the words of YAML instead of Python's."""
    if kind in _SORTS:
        found = "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)
        return f"this must be {_SORTS[kind]}, not {found}", f"write {_SORTS[kind]}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{value} is not {words} {context[key]:g}", f"write a number {words} {context[key]:g}"
    if kind == "string_pattern_mismatch":
        return f"{value!r} does not match the pattern {context['pattern']}", "write text of this form"
    if kind == "too_short":
        return f"there are {context['actual_length']}, and {context['min_length']} must be", "name another"
    if kind == "too_long":
        return f"there are more than {context['max_length']}, which is the limit", "remove some"
    return None
