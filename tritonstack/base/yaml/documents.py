"""Load YAML files into typed records and report every error with file, line, field, and remedy.

`yaml.compose` gives the line of each key, pydantic checks the values, and pydantic's errors are reworded in
terms of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from tritonstack.base.error_kinds import InvalidValueError, MissingKeyError, UnavailableOptionError
from tritonstack.base.errors import ErrorKind, FieldPath, FileViolation, InvalidFilesError, Violation
from tritonstack.base.yaml.parsing import (
    MAX_VIOLATIONS,
    in_file,
    nearest_line,
    parse_yaml,
    read_text,
)
from tritonstack.base.yaml.violations import (
    NO_VALUE,
    Choice,
    ContradictionError,
    branches_at,
    conflicts,
    path_of,
    violations_in,
)

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
            (UnavailableOptionError if names else MissingKeyError).at(
                (), choice.message(names), choice.remedy(names)
            )
            for choice in self.alternatives
            for names in [[f"`{name}`" for name in choice.names if self._is_given(name)]]
            if choice.is_violated_by(names)
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
            MissingKeyError.at(
                (name,), NO_VALUE, "write `{}` for the defaults, give a value, or remove the key"
            )
            for name in sorted(self.model_fields_set)
            if getattr(self, name) is None and any(branches_at(type(self).model_fields[name].annotation, ()))
        )
        return self


RecordT = TypeVar("RecordT", bound=Record)


def raise_violations(violations: Iterable[Violation]) -> None:
    """Raise ContradictionError if there are any violations."""
    distinct = tuple(dict.fromkeys(violations))
    if distinct:
        raise ContradictionError(distinct)


def matching(pattern: str, message: str) -> AfterValidator:
    """Return a check that a text matches a pattern; `{}` in the message stands for the text."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(message.format(repr(text)))
        return text

    return AfterValidator(check)


def check_distinct(items: tuple[str, ...]) -> tuple[str, ...]:
    """Check that a list has no duplicates."""
    first: dict[str, int] = {}
    raise_violations(
        InvalidValueError.at((index,), f"duplicate item {item!r}", "keep one of the two")
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

    def violation(self, kind: ErrorKind, path: FieldPath, message: str, remedy: str | None) -> FileViolation:
        """Describe an error of some kind at one field of this file."""
        return self.place(Violation(path, message, remedy, code=kind.code))

    def invalid(
        self, kind: ErrorKind, path: FieldPath, message: str, remedy: str | None
    ) -> InvalidFilesError:
        """Return the error to raise for one field of this file."""
        return InvalidFilesError([self.violation(kind, path, message, remedy)])

    def place(self, violation: Violation) -> FileViolation:
        """Return where in this file a violation of its record is."""
        return in_file(violation, self.file, self.lines)


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
                    in_file(violation, file, lines)
                    for details in error.errors(include_url=False)[:MAX_VIOLATIONS]
                    if not any(conflict.explains(path_of(details, data)) for conflict in several)
                    for violation in violations_in(record_type, data, details)
                ),
            ]
        ) from None
    return Document(record, file, lines)


def _to_json(data: Any) -> bytes:
    # In JSON mode, strict validation accepts YAML's forms (lists for tuples, text for enums)
    # and still rejects numbers in place of text and the reverse.
    return json.dumps(data).encode()
