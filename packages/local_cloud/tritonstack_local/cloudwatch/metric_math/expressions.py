"""Metric math as it is written: expressions parsed into a tree. What it means is in metric_math.py.

or := and {(OR | ||) and}      and := comparison {(AND | &&) comparison}
comparison := sum [(== != <= >= < >) sum]      sum := product {(+ -) product}
product := power {(* /) power}      power := sign [^ power]      sign := - sign | atom
atom := number | "text" | id | FUNCTION(or, ...) | [or, ...] | (or)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritonstack_local.cloudwatch.tokens import Cursor, matches

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|(?P<name>[A-Za-z]\w*)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[-+*/^<>(),\[\]]))"
)
_LEVELS: tuple[dict[str, str], ...] = (
    {"OR": "OR", "||": "OR"},
    {"AND": "AND", "&&": "AND"},
    {sign: sign for sign in ("==", "!=", "<=", ">=", "<", ">")},
    {"+": "+", "-": "-"},
    {"*": "*", "/": "/"},
)


class ExpressionError(Exception):
    """An expression that cannot be computed; the message says why."""


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Text:
    """A quoted text."""

    value: str


@dataclass(frozen=True)
class Name:
    """The id of another query, or a word such as REPEAT."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of its arguments; operators are functions named by their sign."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Array:
    """Several series."""

    items: tuple[Node, ...]


Node = Number | Text | Name | Call | Array


def parse_expression(text: str) -> Node:
    """Parse, or raise ExpressionError."""
    tokens = matches(_TOKEN, text, fault=ExpressionError)
    parser = _Parser((match[match.lastgroup or 0] for match in tokens), fault=ExpressionError)
    node = parser.level(0)
    if parser.ahead is not None:
        raise ExpressionError(f"{parser.ahead!r} is not expected there")
    return node


def names_in(node: Node) -> set[str]:
    """Return every name that an expression mentions."""
    if isinstance(node, Name):
        return {node.name}
    inner = node.arguments if isinstance(node, Call) else node.items if isinstance(node, Array) else ()
    return set().union(*map(names_in, inner))


def functions_in(node: Node) -> set[str]:
    """Return every function and operator of an expression."""
    own = {node.function} if isinstance(node, Call) else set()
    inner = node.arguments if isinstance(node, Call) else node.items if isinstance(node, Array) else ()
    return own.union(*map(functions_in, inner))


class _Parser(Cursor[str]):
    def level(self, number: int) -> Node:
        """Parse what binds at least as strongly as this level's operators, which stand from left to right."""
        if number == len(_LEVELS):
            return self._power()
        node = self.level(number + 1)
        while self.ahead in _LEVELS[number]:
            operator = _LEVELS[number][self.take()]
            node = Call(operator, (node, self.level(number + 1)))
        return node

    def _power(self) -> Node:
        base = self._sign()
        if self.ahead != "^":
            return base
        self.take()
        return Call("^", (base, self._power()))

    def _sign(self) -> Node:
        if self.ahead != "-":
            return self._atom()
        self.take()
        return Call("-", (Number(0.0), self._sign()))

    def _atom(self) -> Node:
        piece = self.take()
        if piece == "(":
            node = self.level(0)
            self._expect(")")
            return node
        if piece == "[":
            return Array(self._list_until("]"))
        if piece[0].isdigit() or piece[0] == ".":
            return Number(float(piece))
        if piece[0] in "\"'":
            return Text(piece[1:-1])
        if not piece[0].isalpha():
            raise ExpressionError(f"{piece!r} is not expected there")
        if self.ahead != "(":
            return Name(piece)
        self.take()
        return Call(piece, self._list_until(")"))

    def _list_until(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        if self.ahead != end:
            items.append(self.level(0))
            while self.ahead == ",":
                self.take()
                items.append(self.level(0))
        self._expect(end)
        return tuple(items)

    def _expect(self, token: str) -> None:
        if self.take() != token:
            raise ExpressionError(f"a {token!r} is missing")
