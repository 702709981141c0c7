"""Parse and evaluate the metric math of alarms and GetMetricData: operators, FILL, and IF.

or := and {(OR | ||) and}      and := comparison {(AND | &&) comparison}
comparison := sum [(== != <= >= < >) sum]      sum := product {(+ -) product}
product := sign {(* /) sign}      sign := - sign | atom
atom := number | id | FUNCTION(or, ...) | (or)

Series hold one value per period; a missing value is None. As documented by CloudWatch: an operator uses 0 for
a value that only one side has, a division by zero drops the value, and IF drops values whose
condition is missing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tritonstack_local.cloudwatch.tokens import TokenCursor, matches

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
_OPERATORS: Mapping[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else None,
    "==": lambda left, right: float(left == right),
    "!=": lambda left, right: float(left != right),
    "<": lambda left, right: float(left < right),
    "<=": lambda left, right: float(left <= right),
    ">": lambda left, right: float(left > right),
    ">=": lambda left, right: float(left >= right),
    "AND": lambda left, right: float(bool(left and right)),
    "OR": lambda left, right: float(bool(left or right)),
}
SUPPORTED_FUNCTIONS = ("FILL", "IF")

Series = tuple[float | None, ...]
Value = float | Series


class ExpressionError(Exception):
    """An expression that cannot be parsed or computed; the message gives the reason."""


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Name:
    """The id of another query."""

    name: str


@dataclass(frozen=True)
class FunctionCall:
    """A function call; operators are functions named by their sign."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | FunctionCall


@dataclass(frozen=True)
class Inputs:
    """The data of an expression."""

    metrics: Mapping[str, Series]
    """Series by query id."""
    expressions: Mapping[str, Node]
    """Other expressions by query id."""


def parse_expression(text: str) -> Node:
    """Parse an expression, or raise ExpressionError."""
    tokens = matches(_TOKEN, text, error=ExpressionError)
    parser = _ExpressionParser((match[match.lastgroup or 0] for match in tokens), error=ExpressionError)
    node = parser.level(0)
    if parser.ahead is not None:
        raise ExpressionError(f"unexpected {parser.ahead!r}")
    return node


def evaluate(node: Node, inputs: Inputs) -> Series:
    """Compute an expression to one series, or raise ExpressionError."""
    value = _Evaluation(inputs).value(node)
    if isinstance(value, float):
        raise ExpressionError("the result is a number; expected a time series")
    return value


def check(node: Node, inputs: Inputs) -> None:
    """Raise ExpressionError for an expression that can never be computed."""
    unknown = sorted(set(_names(node)) - inputs.metrics.keys() - inputs.expressions.keys())
    if unknown:
        raise ExpressionError(f"no query has the id {unknown[0]!r}")
    evaluate(node, inputs)


def _names(node: Node) -> Iterator[str]:
    if isinstance(node, Name):
        yield node.name
    if isinstance(node, FunctionCall):
        for argument in node.arguments:
            yield from _names(argument)


class _ExpressionParser(TokenCursor[str]):
    def level(self, number: int) -> Node:
        """Parse operators of this precedence level and higher."""
        if number == len(_LEVELS):
            return self._sign()
        signs = _LEVELS[number]
        return self.chain(
            signs,
            lambda: self.level(number + 1),
            lambda sign, operands: FunctionCall(signs[sign], operands),
        )

    def _sign(self) -> Node:
        if self.ahead != "-":
            return self._atom()
        self.take()
        return FunctionCall("-", (Number(0.0), self._sign()))

    def _atom(self) -> Node:
        piece = self.take()
        if piece == "(":
            node = self.level(0)
            self._expect(")")
            return node
        if piece[0].isdigit() or piece[0] == ".":
            return Number(float(piece))
        if not piece[0].isalpha():
            raise ExpressionError(f"unexpected {piece!r}; the local cloud supports no arrays and no text")
        if self.ahead != "(":
            return Name(piece)
        if piece not in SUPPORTED_FUNCTIONS:
            supported = ", ".join(SUPPORTED_FUNCTIONS)
            raise ExpressionError(
                f"the local cloud does not support the function {piece}; supported: {supported}"
            )
        self.take()
        return FunctionCall(piece, self._arguments())

    def _arguments(self) -> tuple[Node, ...]:
        items = [self.level(0)]
        while self.ahead == ",":
            self.take()
            items.append(self.level(0))
        self._expect(")")
        return tuple(items)

    def _expect(self, token: str) -> None:
        if self.take() != token:
            raise ExpressionError(f"missing {token!r}")


class _Evaluation:
    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._open: set[str] = set()

    def value(self, node: Node) -> Value:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._named(node.name)
        arguments = tuple(map(self.value, node.arguments))
        if node.function in _OPERATORS:
            return _combine(_OPERATORS[node.function], *arguments)
        series = arguments[0]
        if node.function == "FILL" and len(arguments) == 2 and not isinstance(series, float):
            return _fill(series, arguments[1])
        if node.function == "IF" and len(arguments) in (2, 3) and not isinstance(series, float):
            return _choose(series, *arguments[1:])
        raise ExpressionError(f"wrong arguments of {node.function}")

    def _named(self, name: str) -> Value:
        if name in self._inputs.metrics:
            return self._inputs.metrics[name]
        if name not in self._inputs.expressions:
            raise ExpressionError(f"no query has the id {name!r}")
        if name in self._open:
            raise ExpressionError(f"the query {name!r} depends on itself")
        self._open.add(name)
        value = self.value(self._inputs.expressions[name])
        self._open.discard(name)
        return value


def _combine(step: Callable[[float, float], float | None], left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        found = step(left, right)
        if found is None:
            raise ExpressionError("division of a number by zero")
        return found
    count = len(left if isinstance(left, tuple) else right)  # type: ignore[arg-type]
    both = isinstance(left, tuple) and isinstance(right, tuple)
    result: list[float | None] = []
    for index in range(count):
        one, other = _item(left, index), _item(right, index)
        missing = (one is None and other is None) if both else (one is None or other is None)
        result.append(None if missing else step(one or 0.0, other or 0.0))
    return tuple(result)


def _fill(series: Series, by: Value) -> Value:
    return tuple(_item(by, index) if item is None else item for index, item in enumerate(series))


def _choose(condition: Series, then: Value, otherwise: Value | None = None) -> Value:
    result: list[float | None] = []
    for index, holds in enumerate(condition):
        if holds is None:
            result.append(None)
        elif holds:
            result.append(_item(then, index) or 0.0)
        else:
            result.append(None if otherwise is None else _item(otherwise, index))
    return tuple(result)


def _item(value: Value, index: int) -> float | None:
    return value if isinstance(value, float) else value[index]
