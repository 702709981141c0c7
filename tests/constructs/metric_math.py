"""Evaluate some of CloudWatch's metric math for one period, to test alarms and dashboards."""

import ast
import operator
from collections.abc import Callable, Mapping

Value = float | None
"""None: no data."""

_OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
}


def evaluate(expression: str, values: Mapping[str, Value], *, period_s: int = 300) -> Value:
    """Return the value of an expression; unknown names are an error."""
    return _value(ast.parse(expression, mode="eval").body, values, period_s)


def _value(node: ast.expr, values: Mapping[str, Value], period_s: int) -> Value:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=left, op=kind, right=right):
            return _apply(type(kind), _value(left, values, period_s), _value(right, values, period_s))
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            return _apply(type(kind), _value(left, values, period_s), _value(right, values, period_s))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return _call(function, [_value(argument, values, period_s) for argument in arguments], period_s)
    raise AssertionError(f"metric math that this does not know: {ast.unparse(node)}")


def _call(function: str, arguments: list[Value], period_s: int) -> Value:
    if function == "FILL":
        value, filling = arguments
        return filling if value is None else value
    if function == "IF":
        condition, yes, no = arguments
        return None if condition is None else (yes if condition else no)
    assert function == "PERIOD"
    return period_s


def _apply(kind: type[ast.AST], first: Value, right: Value) -> Value:
    if first is None or right is None or (kind is ast.Div and right == 0):
        return None
    return _OPERATORS[kind](first, right)
