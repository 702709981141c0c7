"""Tokenize and walk the texts of metric math and alarm rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

_SHOWN = 30
Token = TypeVar("Token")


def matches(pattern: re.Pattern[str], text: str, *, fault: type[Exception]) -> Iterator[re.Match[str]]:
    """Yield one match after the other; raise `fault` where the text is none of them."""
    position, end = 0, len(text.rstrip())
    while position < end:
        match = pattern.match(text, position)
        if match is None:
            raise fault(f"{text[position:].strip()[:_SHOWN]!r} is not understood")
        position = match.end()
        yield match


class Cursor(Generic[Token]):
    """A place among tokens. Taking one beyond the last raises `fault`."""

    def __init__(self, tokens: Iterable[Token], *, fault: type[Exception]) -> None:
        self._tokens = list(tokens)
        self._position = 0
        self._fault = fault

    @property
    def ahead(self) -> Token | None:
        """The next token, None at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def take(self) -> Token:
        """Return the next token and go on."""
        token = self.ahead
        if token is None:
            raise self._fault("it ends too early")
        self._position += 1
        return token
