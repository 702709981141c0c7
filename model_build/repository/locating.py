"""Find the line of each field in a config.pbtxt, for error messages.

protobuf reports positions of syntax errors only. This follows the grammar of protobuf's text format (names,
values, `{}` and `<>` blocks, `[]` lists) without validating it.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping

FieldPlace = tuple[str | int, ...]
"""A field path, with the index of each repeated item: ("input", 0, "dims", 1)."""

_STRING = r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_TOKEN = re.compile(rf"""\#[^\n]*|{_STRING}(?:\s*{_STRING})*|[{{}}<>\[\]]|[^\s{{}}<>\[\],;:\#"']+""")
"""A comment, adjacent strings, which are one, a bracket, or a word; separators are skipped."""
_Tokens = deque[tuple[str, int]]


def field_lines(text: str) -> Mapping[FieldPlace, int]:
    """Return the line of every field in a valid text."""
    lines: dict[FieldPlace, int] = {}
    _read_block(deque(_tokens(text)), (), lines)
    return lines


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        if not match.group().startswith("#"):
            yield match.group(), line


def _read_block(tokens: _Tokens, place: FieldPlace, lines: dict[FieldPlace, int]) -> None:
    """Read fields to the end of a block."""
    counts = Counter[str]()
    while tokens and (token := tokens.popleft())[0] not in ("}", ">"):
        name, line = token
        lines.setdefault((*place, name), line)
        for value, value_line in _values(tokens, line):
            item = (*place, name, counts[name])
            counts[name] += 1
            lines[item] = value_line
            if value in ("{", "<"):
                _read_block(tokens, item, lines)


def _values(tokens: _Tokens, line: int) -> Iterator[tuple[str, int]]:
    """Yield the first token of each value of a field: one at the field's line, or those of a list."""
    if (first := tokens.popleft()[0]) != "[":
        yield first, line
        return
    while (token := tokens.popleft())[0] != "]":
        yield token


def line_of(lines: Mapping[FieldPlace, int], *place: str | int) -> int | None:
    """Return the line of a field or its nearest parent; without an index, the first item's."""
    full: list[str | int] = []
    for part in place:
        if isinstance(part, str) and full and isinstance(full[-1], str):
            full.append(0)
        full.append(part)
    place = tuple(full)
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return None


def field_of(place: FieldPlace) -> str:
    """Return a field in dotted form, without the indexes of items."""
    return ".".join(part for part in place if isinstance(part, str))
