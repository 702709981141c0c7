"""Find the line of each field in a config.pbtxt, for error messages.

protobuf reports positions of syntax errors only. This follows the grammar of protobuf's text format (names,
values, `{}` and `<>` blocks, `[]` lists) without validating it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FieldPlace = tuple[str | int, ...]
"""A field path, with the index of each repeated item: ("input", 0, "dims", 1)."""

_TOKEN = re.compile(
    r"""\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[{}<>\[\],;:]|[^\s{}<>\[\],;:\#"']+""", re.VERBOSE
)
_OPENING, _CLOSING = ("{", "<"), ("}", ">")


@dataclass(frozen=True)
class _Token:
    text: str
    line: int


def field_lines(text: str) -> Mapping[FieldPlace, int]:
    """Return the line of every field in a valid text."""
    locator = _Locator(list(_tokens(text)))
    locator.block(())
    return locator.lines


def _tokens(text: str) -> Iterator[_Token]:
    line, end = 1, 0
    for match in _TOKEN.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        if not match.group().startswith("#"):
            yield _Token(match.group(), line)


class _Locator:
    """Tokenizer and parser state."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self.lines: dict[FieldPlace, int] = {}

    def block(self, place: FieldPlace) -> None:
        """Read fields to the end of a block."""
        counts: dict[str, int] = {}
        while (token := self._peek()) is not None and token.text not in _CLOSING:
            self._at += 1
            if token.text in (",", ";"):
                continue
            self._skip(":")
            self._values((*place, token.text), token, counts)
        self._at += 1

    def _values(self, place: FieldPlace, name: _Token, counts: dict[str, int]) -> None:
        self.lines.setdefault(place, name.line)
        if not self._skip("["):
            self._value(place, name, counts)
            return
        while (token := self._peek()) is not None and token.text != "]":
            if not self._skip(","):
                self._value(place, token, counts)
        self._at += 1

    def _value(self, place: FieldPlace, shown: _Token, counts: dict[str, int]) -> None:
        number = counts.get(shown_name := str(place[-1]), 0)
        counts[shown_name] = number + 1
        self.lines[(*place, number)] = shown.line
        token = self._tokens[self._at]
        self._at += 1
        if token.text in _OPENING:
            self.block((*place, number))
            return
        # Adjacent strings are one string.
        while token.text[0] in "\"'" and (after := self._peek()) is not None and after.text[0] in "\"'":
            self._at += 1

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _skip(self, text: str) -> bool:
        token = self._peek()
        if token is None or token.text != text:
            return False
        self._at += 1
        return True


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
