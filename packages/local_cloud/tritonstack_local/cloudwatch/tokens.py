"""Tokenize and parse metric math and alarm rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Generic, TypeVar

_SHOWN = 30
Token = TypeVar("Token")
Node = TypeVar("Node")


def matches(pattern: re.Pattern[str], text: str, *, error: type[Exception]) -> Iterator[re.Match[str]]:
    """Yield consecutive matches; raise `error` for text that does not match."""
    position, end = 0, len(text.rstrip())
    while position < end:
        match = pattern.match(text, position)
        if match is None:
            raise error(f"unexpected {text[position:].strip()[:_SHOWN]!r}")
        position = match.end()
        yield match


class TokenCursor(Generic[Token]):
    """A position in a list of tokens."""

    def __init__(self, tokens: Iterable[Token], *, error: type[Exception]) -> None:
        self._tokens = list(tokens)
        self._position = 0
        self._error = error

    @property
    def ahead(self) -> Token | None:
        """The next token; None at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else None

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.ahead
        if token is None:
            raise self._error("unexpected end")
        self._position += 1
        return token

    def chain(
        self,
        operators: Container[Token | None],
        operand: Callable[[], Node],
        combine: Callable[[Any, tuple[Node, Node]], Node],
    ) -> Node:
        """Parse operands joined by left-associative operators of one precedence."""
        node = operand()
        while self.ahead in operators:
            operator = self.take()
            node = combine(operator, (node, operand()))
        return node
