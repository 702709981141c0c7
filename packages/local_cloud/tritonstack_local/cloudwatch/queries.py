"""The MetricDataQueries of alarms and GetMetricData: each is a metric or an expression over others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudwatch.store import METRICS, MetricKey, Span, key_of, statistic_named
from tritonstack_local.scope import Scope

# Metric math in the stacks is Python's own syntax, so Python's parser reads it; everything else of Python is
# rejected. Series hold one value per period; a missing value is None. As documented by CloudWatch: an
# operator uses 0 for a value that only one side has, a division by zero drops the value, and IF drops values
# whose condition is missing.


_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float | None]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right if right else None,
    ast.Eq: lambda left, right: float(left == right),
    ast.NotEq: lambda left, right: float(left != right),
    ast.Lt: lambda left, right: float(left < right),
    ast.LtE: lambda left, right: float(left <= right),
    ast.Gt: lambda left, right: float(left > right),
    ast.GtE: lambda left, right: float(left >= right),
}
SUPPORTED_FUNCTIONS = ("FILL", "IF")
_SHOWN = 40

Series = tuple[float | None, ...]
Value = float | Series


class ExpressionError(Exception):
    """An expression that cannot be parsed or computed; the message gives the reason."""


@dataclass(frozen=True)
class Inputs:
    """The data of an expression; each query is computed once."""

    values: dict[str, Value]
    """Series of metrics, and the values of expressions computed so far, by query id."""
    expressions: Mapping[str, ast.expr]
    """Other expressions by query id."""


def parse_expression(text: str) -> ast.expr:
    """Parse an expression, in which blanks and ends of lines mean nothing, or raise ExpressionError."""
    if "#" in text:  # a comment to Python
        raise ExpressionError(f"{text[:_SHOWN]!r} is no supported expression")
    try:
        return ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text[:_SHOWN]!r} is no supported expression: {error}") from error


def evaluate(node: ast.expr, inputs: Inputs) -> Series:
    """Compute an expression to one series, or raise ExpressionError."""
    try:
        value = _value(node, inputs, frozenset())
    except RecursionError as error:
        raise ExpressionError("the expression is nested too deeply") from error
    except OverflowError as error:
        raise ExpressionError("a number of the expression is too large") from error
    if isinstance(value, float):
        raise ExpressionError("the result is a number; expected a time series")
    return value


def _value(node: ast.expr, inputs: Inputs, within: frozenset[str]) -> Value:
    """Compute a node; `within` are the queries that are being computed."""
    match node:
        case ast.Constant(value=(int() | float()) as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name):
            return _query(name, inputs, within)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _combined(operator.sub, 0.0, _value(operand, inputs, within))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            pass
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _OPERATORS:
            pass
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in SUPPORTED_FUNCTIONS:
            return _called(name, [_value(argument, inputs, within) for argument in arguments])
        case _:
            raise ExpressionError(
                f"the local cloud does not support {ast.unparse(node)[:_SHOWN]}; supported: + - * /, "
                f"comparisons, {', '.join(SUPPORTED_FUNCTIONS)}"
            )
    return _combined(_OPERATORS[type(sign)], _value(left, inputs, within), _value(right, inputs, within))


def _query(name: str, inputs: Inputs, within: frozenset[str]) -> Value:
    if name in inputs.values:
        return inputs.values[name]
    if name not in inputs.expressions:
        raise ExpressionError(f"no query has the id {name!r}")
    if name in within:
        raise ExpressionError(f"the query {name!r} depends on itself")
    value = inputs.values[name] = _value(inputs.expressions[name], inputs, within | {name})
    return value


def _combined(step: Callable[[float, float], float | None], left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        number = step(left, right)
        if number is None:
            raise ExpressionError("division of a number by zero")
        return number
    has_number = isinstance(left, float) or isinstance(right, float)
    result: list[float | None] = []
    for one, other in zip(_as_series(left, like=right), _as_series(right, like=left), strict=True):
        missing = (one is None or other is None) if has_number else (one is None and other is None)
        result.append(None if missing else step(one or 0.0, other or 0.0))
    return tuple(result)


def _called(name: str, arguments: list[Value]) -> Series:
    counts = (2,) if name == "FILL" else (2, 3)
    if len(arguments) not in counts or isinstance(arguments[0], float):
        raise ExpressionError(f"wrong arguments of {name}")
    series = arguments[0]
    others = [_as_series(argument, like=series) for argument in arguments[1:]]
    if name == "FILL":
        return tuple(
            filling if value is None else value for value, filling in zip(series, others[0], strict=True)
        )
    otherwise = others[1] if len(others) > 1 else (None,) * len(series)
    return tuple(
        None if condition is None else (then or 0.0) if condition else other
        for condition, then, other in zip(series, others[0], otherwise, strict=True)
    )


def _as_series(value: Value, *, like: Value) -> Series:
    """Return a number as a series of the length of another."""
    if isinstance(value, tuple):
        return value
    return (value,) * (len(like) if isinstance(like, tuple) else 1)


class QueryError(Exception):
    """A query that cannot be answered as on AWS; the message gives the reason."""


@dataclass(frozen=True)
class Query:
    """One series: a statistic of a metric, or an expression."""

    id: str
    period_s: int | None = None
    metric: MetricKey | None = None
    statistic: str = ""
    unit: str | None = None
    expression: ast.expr | None = None


def read_query(item: Mapping[str, Any]) -> Query:
    """Read a MetricDataQuery, or raise QueryError."""
    if item.get("AccountId"):
        raise QueryError("The local cloud does not support AccountId: use the own account.")
    if stat := item.get("MetricStat"):
        return metric_query(item["Id"], {**stat, **stat["Metric"]}, stat["Stat"])
    text = item.get("Expression") or ""
    if text.lstrip().upper().startswith("SELECT"):
        raise QueryError("The local cloud does not support Metrics Insights queries.")
    try:
        return Query(item["Id"], item.get("Period"), expression=parse_expression(text))
    except ExpressionError as error:
        raise QueryError(f"Metrics: {item['Id']}: {error}") from error


def metric_query(name: str, fields: Mapping[str, Any], statistic: str) -> Query:
    """Return the query of a metric, given as in PutMetricAlarm."""
    for field in ("Namespace", "MetricName", "Period"):
        if fields.get(field) is None:
            raise QueryError(f"The parameter {field} is required")
    if statistic_named(statistic) is None:
        raise QueryError(f"The value {statistic} for parameter ExtendedStatistic is not supported.")
    return Query(name, int(fields["Period"]), key_of(fields), statistic, fields.get("Unit"))


def compute(query: Query, queries: Sequence[Query], scope: Scope, span: Span) -> Series:
    """Return a query's values in windows, which all metrics of its expression share."""
    if query.expression is None:
        return _series(query, scope, span)
    return _evaluated(
        query, queries, {other.id: _series(other, scope, span) for other in queries if other.metric}
    )


def check(query: Query, queries: Sequence[Query]) -> None:
    """Raise QueryError for an expression that can never be computed."""
    if query.expression is not None:
        _evaluated(query, queries, {other.id: (1.0,) for other in queries if other.metric})


def _evaluated(query: Query, queries: Sequence[Query], metrics: Mapping[str, Series]) -> Series:
    expressions = {other.id: other.expression for other in queries if other.expression is not None}
    try:
        return evaluate(expressions[query.id], Inputs(dict(metrics), expressions))
    except ExpressionError as error:
        raise QueryError(f"Metrics: {query.id}: {error}") from error


def _series(query: Query, scope: Scope, span: Span) -> Series:
    compute_statistic = statistic_named(query.statistic)
    if query.metric is None or compute_statistic is None:
        return (None,) * span.count
    windows = METRICS.windows(scope, query.metric, span, unit=query.unit)
    return tuple(None if summary is None else compute_statistic(summary) for summary in windows)
