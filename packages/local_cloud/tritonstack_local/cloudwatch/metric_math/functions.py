"""The functions and operators of metric math, over numbers, series and arrays of series."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NoReturn

from tritonstack_local.cloudwatch.metric_math.expressions import ExpressionError

Series = tuple[float | None, ...]
Value = float | Series | list[Series]


def refuse(function: str) -> NoReturn:
    """Refuse the arguments of a function."""
    raise ExpressionError(f"{function} does not take these arguments")


def number_of(value: Value, function: str) -> float:
    """Return a number, or refuse what a function got in its place."""
    return value if isinstance(value, float) else refuse(function)


def all_series(value: Value) -> list[Series]:
    """Return the series of a value."""
    if isinstance(value, float):
        raise ExpressionError("a number stands where time series are needed")
    return value if isinstance(value, list) else [value]


def each(value: Value, step: Callable[[Series], Series]) -> Value:
    """Apply to each series of a value."""
    if isinstance(value, list):
        return [step(series) for series in value]
    return step(all_series(value)[0])


def _pairwise(step: Callable[[float, float], float | None]) -> Callable[[Value, Value], Value]:
    """Apply to numbers, to series window by window, and to each series of several."""

    def two(left: float | None, right: float | None) -> float | None:
        if left is None and right is None:
            return None
        return step(left or 0.0, right or 0.0)

    def compute(left: Value, right: Value) -> Value:
        if isinstance(left, list) and isinstance(right, list):
            raise ExpressionError("two arrays of time series cannot be put together")
        if isinstance(left, list):
            return [series for item in left for series in all_series(compute(item, right))]
        if isinstance(right, list):
            return [series for item in right for series in all_series(compute(left, item))]
        if isinstance(left, tuple) and isinstance(right, tuple):
            return tuple(map(two, left, right))
        return _with_number(step, left, right)

    return compute


def _with_number(step: Callable[[float, float], float | None], left: Value, right: Value) -> Value:
    if isinstance(left, tuple):
        by = number_of(right, "An operator")
        return tuple(None if item is None else step(item, by) for item in left)
    number = number_of(left, "An operator")
    if isinstance(right, tuple):
        return tuple(None if item is None else step(number, item) for item in right)
    found = step(number, number_of(right, "An operator"))
    if found is None:
        raise ExpressionError("a number is divided by zero")
    return found


def _divide(left: float, right: float) -> float | None:
    return left / right if right else None


def _power(left: float, right: float) -> float | None:
    try:
        found = left**right
    except (OverflowError, ZeroDivisionError):
        return None
    return found if isinstance(found, float) else None  # a root of a negative number is no value


def _one_by_one(step: Callable[[float], float | None]) -> Callable[[Value], Value]:
    def compute(value: Value) -> Value:
        return each(value, lambda series: tuple(None if item is None else step(item) for item in series))

    return compute


def _over(step: Callable[[Sequence[float]], float]) -> Callable[[Value], Value]:
    """Of one series the number over all its values, of several the series over the values of each window."""

    def compute(value: Value) -> Value:
        if isinstance(value, list):
            columns = zip(*value, strict=True)
            return tuple(_known(column, step) for column in columns)
        return _known(all_series(value)[0], step) or 0.0

    return compute


def _known(values: Sequence[float | None], step: Callable[[Sequence[float]], float]) -> float | None:
    known = [item for item in values if item is not None]
    return float(step(known)) if known else None


def _count(value: Value) -> Value:
    if isinstance(value, list):
        return tuple(float(sum(item is not None for item in column)) for column in zip(*value, strict=True))
    return float(sum(item is not None for item in all_series(value)[0]))


def _if(condition: Value, then: Value, otherwise: Value | None = None) -> Value:
    if isinstance(condition, float):
        chosen = then if condition else otherwise
        if chosen is None:
            return tuple(None for _ in all_series(then)[0])
        return chosen
    (known,) = all_series(condition)
    result: list[float | None] = []
    for number, holds in enumerate(known):
        if holds is None:
            result.append(None)
        elif holds:
            result.append(_item(then, number) or 0.0)
        else:
            result.append(None if otherwise is None else _item(otherwise, number))
    return tuple(result)


def _item(value: Value, number: int) -> float | None:
    return value if isinstance(value, float) else all_series(value)[0][number]


def filled(series: Series, by: Value) -> Series:
    """Fill the gaps of a series with a number, or with what another series has there."""
    return tuple(_item(by, number) if item is None else item for number, item in enumerate(series))


def repeated(series: Series) -> Series:
    """Fill gaps with the value before them."""
    last, result = None, []
    for item in series:
        last = last if item is None else item
        result.append(last)
    return tuple(result)


def interpolated(series: Series) -> Series:
    """Fill gaps between values in a straight line."""
    known = [(number, item) for number, item in enumerate(series) if item is not None]
    result = list(series)
    for (first, left), (last, right) in pairwise(known):
        for number in range(first + 1, last):
            result[number] = left + (right - left) * (number - first) / (last - first)
    return tuple(result)


def _steps(series: Series, step: Callable[[float, float, int], float]) -> Series:
    """Put each value together with the one before it: newer, older, how many windows lie between."""
    before: tuple[int, float] | None = None
    result: list[float | None] = []
    for number, item in enumerate(series):
        found = None if item is None or before is None else step(item, before[1], number - before[0])
        result.append(found)
        before = before if item is None else (number, item)
    return tuple(result)


def _differences(value: Value) -> Value:
    return each(value, lambda series: _steps(series, lambda newer, older, _: newer - older))


def rate(series: Series, period: float) -> Series:
    """Return the change per second."""
    return _steps(series, lambda newer, older, apart: (newer - older) / (apart * period))


def elapsed(series: Series, period: float) -> Series:
    """Return the seconds since the value before."""
    return _steps(series, lambda _newer, _older, apart: apart * period)


def _running(value: Value) -> Value:
    def summed(series: Series) -> Series:
        total, result = 0.0, []
        for item in series:
            total += item or 0.0
            result.append(total)
        return tuple(result)

    return each(value, summed)


def _slice(value: Value, start: Value, end: Value | None = None) -> Value:
    last = None if end is None else int(number_of(end, "SLICE"))
    return all_series(value)[int(number_of(start, "SLICE")) : last]


def _log(base: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda item: base(item) if item > 0 else None


def _compared(holds: Callable[[float, float], bool]) -> Callable[[Value, Value], Value]:
    return _pairwise(lambda left, right: float(holds(left, right)))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "+": _pairwise(operator.add),
    "-": _pairwise(operator.sub),
    "*": _pairwise(operator.mul),
    "/": _pairwise(_divide),
    "^": _pairwise(_power),
    "==": _compared(operator.eq),
    "!=": _compared(operator.ne),
    "<": _compared(operator.lt),
    "<=": _compared(operator.le),
    ">": _compared(operator.gt),
    ">=": _compared(operator.ge),
    "AND": _compared(lambda left, right: bool(left and right)),
    "OR": _compared(lambda left, right: bool(left or right)),
    "ABS": _one_by_one(abs),
    "CEIL": _one_by_one(lambda item: float(math.ceil(item))),
    "FLOOR": _one_by_one(lambda item: float(math.floor(item))),
    "LOG": _one_by_one(_log(math.log)),
    "LOG10": _one_by_one(_log(math.log10)),
    "AVG": _over(statistics.fmean),
    "MAX": _over(max),
    "MIN": _over(min),
    "STDDEV": _over(statistics.pstdev),
    "SUM": _over(math.fsum),
    "DATAPOINT_COUNT": _count,
    "DIFF": _differences,
    "FIRST": lambda value: all_series(value)[0],
    "IF": _if,
    "LAST": lambda value: all_series(value)[-1],
    "METRIC_COUNT": lambda value: float(len(all_series(value))),
    "REMOVE_EMPTY": lambda value: [
        series for series in all_series(value) if any(i is not None for i in series)
    ],
    "RUNNING_SUM": _running,
    "SLICE": _slice,
}
