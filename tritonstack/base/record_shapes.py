"""Look up the keys that are allowed at a path of a file, from the record types; suggest the closest one."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tritonstack.base.yaml_reading import FieldPath, value_at


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
