"""What records allow at a path of a file: their keys, the closest one, and fields that exclude each other."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml_reading import FieldPath, field_text, nearest_line, value_at


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
        yield from branches_at(arguments[0], path, data, next((str(found) for found in tags if found), tag))
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


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a misspelled word most likely means."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


@dataclass(frozen=True)
class Choice:
    """Fields of which exactly one is given, or at most one."""

    names: tuple[str, ...]
    required: bool = True

    def message(self, given: Sequence[str]) -> str:
        """Describe a wrong number of fields; `given` are their descriptions."""
        quantity = "exactly" if self.required else "at most"
        return (
            f"expected {quantity} one of {_listed([f'`{name}`' for name in self.names])}, "
            f"got {_listed(given) if given else 'none'}"
        )

    def remedy(self, given: Sequence[str]) -> str:
        """Return the remedy for a wrong number of fields."""
        if not given:
            return "add one of them"
        return "remove one of the two" if len(given) == 2 else "keep one of them, and remove the others"

    def is_violated_by(self, given: Sequence[str]) -> bool:
        """Check whether these are too many fields or too few."""
        return len(given) > 1 or (self.required and not given)


class Conflict(NamedTuple):
    """A mapping of a file with several fields of one choice."""

    path: FieldPath
    choice: Choice
    given: tuple[str, ...]

    def violation(self, file: Path, lines: Mapping[FieldPath, int]) -> FileViolation:
        """Describe the conflict, with the line of each field."""
        named = [f"`{name}` (line {nearest_line(lines, (*self.path, name))})" for name in self.given]
        place = (*self.path, self.given[-1])
        message, remedy = self.choice.message(named), self.choice.remedy(named)
        return FileViolation(
            file, nearest_line(lines, place), field_text(place), message, remedy, code="TS114"
        )

    def explains(self, path: FieldPath) -> bool:
        """Check whether an error at a path is in the mapping as a whole, or in a field of the choice."""
        depth = len(self.path)
        return path[:depth] == self.path and (len(path) == depth or path[depth] in self.choice.names)


def conflicts(record_type: Any, data: Any) -> Iterator[Conflict]:
    """Yield the choices of which a file gives several fields; their values can be invalid."""
    for path, mapping in _mappings(data, ()):
        for branch in branches_at(record_type, path, data):
            for choice in getattr(branch.record, "alternatives", ()):
                given = tuple(name for name in choice.names if mapping.get(name) not in (None, False, []))
                if len(given) > 1:
                    yield Conflict(path, choice, given)


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
