"""Fields of a record that exclude each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tritonstack.base.errors import FileViolation
from tritonstack.base.record_shapes import branches_at
from tritonstack.base.yaml_reading import FieldPath, field_text, nearest_line


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
