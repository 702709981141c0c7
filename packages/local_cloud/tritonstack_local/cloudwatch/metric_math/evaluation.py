"""What metric math computes: expressions over series of windows, in which a missing value is None.

The rules are those of CloudWatch's user guide: in arithmetic and comparisons a value that only one side has
meets 0; a division by zero drops the value; IF drops what its condition does not know. PERIOD, RATE and
DIFF_TIME count seconds by AWS's clock, those that the query names, however fast minutes pass here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritonstack_local.cloudwatch.metric_math.expressions import (
    Array,
    Call,
    ExpressionError,
    Name,
    Node,
    Number,
    Text,
    functions_in,
    names_in,
)
from tritonstack_local.cloudwatch.metric_math.functions import (
    FUNCTIONS,
    Series,
    Value,
    all_series,
    each,
    elapsed,
    filled,
    interpolated,
    number_of,
    rate,
    refuse,
    repeated,
)

# Functions that take more than values: a text, a word, the period of the query.
_WITH_WORDS = frozenset({"DIFF_TIME", "FILL", "METRICS", "PERIOD", "RATE", "TIME_SERIES"})
_WORDS = frozenset({"REPEAT", "LINEAR"})
_KNOWN = FUNCTIONS.keys() | _WITH_WORDS


@dataclass(frozen=True)
class Inputs:
    """What an expression is computed from."""

    metrics: Mapping[str, Series]
    """The series by their ids."""
    expressions: Mapping[str, Node]
    """Other expressions by their ids."""
    period_s: int
    windows: int


def evaluate(node: Node, inputs: Inputs) -> Series:
    """Compute an expression to one series, or raise ExpressionError."""
    found = _Evaluation(inputs).value(node)
    if isinstance(found, float):
        raise ExpressionError("it gives a single number, where a time series is needed")
    if isinstance(found, list):
        if len(found) != 1:
            raise ExpressionError("it gives several time series, where one is needed")
        return found[0]
    return found


def check(node: Node, inputs: Inputs) -> None:
    """Raise ExpressionError for an expression that could never be computed."""
    unknown = sorted(functions_in(node) - _KNOWN)
    if unknown:
        raise ExpressionError(f"the function {unknown[0]} is not built in the embedded cloud")
    nowhere = sorted(names_in(node) - inputs.metrics.keys() - inputs.expressions.keys() - _WORDS)
    if nowhere:
        raise ExpressionError(f"no query has the id {nowhere[0]!r}")
    evaluate(node, inputs)


class _Evaluation:
    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._under_way: set[str] = set()

    def value(self, node: Node) -> Value:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._named(node.name)
        if isinstance(node, Array):
            return [one for item in node.items for one in all_series(self.value(item))]
        if isinstance(node, Text):
            raise ExpressionError(f"the text {node.value!r} is not expected there")
        if node.function in _WITH_WORDS:
            return self._with_words(node)
        compute = FUNCTIONS.get(node.function)
        if compute is None:
            raise ExpressionError(f"the function {node.function} is not built in the embedded cloud")
        try:
            return compute(*map(self.value, node.arguments))
        except TypeError as error:
            raise ExpressionError(f"{node.function} does not take these arguments") from error

    def _named(self, name: str) -> Value:
        if name in self._inputs.metrics:
            return self._inputs.metrics[name]
        if name not in self._inputs.expressions:
            raise ExpressionError(f"no query has the id {name!r}")
        if name in self._under_way:
            raise ExpressionError(f"the query {name!r} needs itself")
        self._under_way.add(name)
        found = self.value(self._inputs.expressions[name])
        self._under_way.discard(name)
        return found

    def _with_words(self, call: Call) -> Value:
        """Functions that take more than values: a text, a word, the period of the query."""
        if call.function == "METRICS":
            return self._metrics(call.arguments)
        first = self.value(call.arguments[0]) if call.arguments else refuse(call.function)
        if call.function == "FILL":
            return self._fill(first, call.arguments[1:])
        if call.function == "TIME_SERIES":
            return (number_of(first, call.function),) * self._inputs.windows
        period = float(self._inputs.period_s)
        if call.function == "PERIOD":
            return period
        step = {"RATE": rate, "DIFF_TIME": elapsed}[call.function]
        return each(first, lambda series: step(series, period))

    def _metrics(self, arguments: tuple[Node, ...]) -> list[Series]:
        part = arguments[0].value if arguments and isinstance(arguments[0], Text) else ""
        return [series for name, series in self._inputs.metrics.items() if part in name]

    def _fill(self, value: Value, filler: tuple[Node, ...]) -> Value:
        if len(filler) != 1:
            refuse("FILL")
        if filler[0] == Name("REPEAT"):
            return each(value, repeated)
        if filler[0] == Name("LINEAR"):
            return each(value, interpolated)
        by = self.value(filler[0])
        return each(value, lambda series: filled(series, by))
