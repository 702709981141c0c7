"""Metric math: the examples of CloudWatch's user guide, and what this project's alarms use."""

import pytest

from tritonstack_local.cloudwatch.metric_math.evaluation import Inputs, check, evaluate
from tritonstack_local.cloudwatch.metric_math.expressions import ExpressionError, parse_expression

_ = None


def computed(text, expressions=None, *, period=60, **series):
    windows = len(next(iter(series.values()))) if series else 3
    metrics = {name: tuple(values) for name, values in series.items()}
    nodes = {name: parse_expression(other) for name, other in (expressions or {}).items()}
    return list(evaluate(parse_expression(text), Inputs(metrics, nodes, period, windows)))


GUIDE = {"metric1": [1, 1, 0, 0, _], "metric2": [30, _, 0, 0, 30], "metric3": [0, 0, 20, _, 20]}
COMPARED = {"metric1": [30, 20, 0, 0], "metric2": [20, _, 20, _]}


@pytest.mark.parametrize(
    ("text", "series", "expected"),
    [
        ("IF(metric1, metric2, metric3)", GUIDE, [30, 0, 20, _, _]),
        ("IF(metric1, 5, metric3)", GUIDE, [5, 5, 20, _, _]),
        ("IF(metric1, metric2, 5)", GUIDE, [30, 0, 5, 5, _]),
        ("(metric1 < metric2)", COMPARED, [0, 0, 1, 0]),
        ("(metric1 >= 30)", COMPARED, [1, 0, 0, 0]),
        ("(metric1 > 15 AND metric2 > 15)", COMPARED, [1, 0, 0, 0]),
    ],
)
def test_the_guides_examples(text, series, expected):
    assert computed(text, **series) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IF(calls > 0, calls, 5)", [7, 5, _, 7]),
        ("IF(FILL(calls, 0) > 0, errors, 0)", [2, 0, 0, 0]),
        ("IF(FILL(calls, 0) + FILL(errors, 0) > 0, errors, 0)", [2, 3, 0, 0]),
    ],
)
def test_what_the_stacks_alarms_compute(text, expected):
    assert computed(text, calls=[7, 0, _, 7], errors=[2, 3, _, _]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * m ^ 2 ^ 1 - -m", [1 + 2 + 1, 1 + 8 + 2, _]),
        ("100 * m / (m + m)", [50, 50, _]),
        ("m / (m - 1)", [_, 2, _]),
        ("m > 1 || m == 1 && 0", [0, 1, _]),
        ("FILL(m, REPEAT)", [1, 2, 2]),
        ("m + n", [1, 2, 4]),
        ("SUM([m, n])", [1, 2, 4]),
        ("MAX(METRICS())", [1, 2, 4]),
        ("AVG(METRICS('m')) + 0 * m", [1, 2, _]),
        ("m / SUM(m)", [1 / 3, 2 / 3, _]),
        ("DATAPOINT_COUNT([m, n])", [1, 1, 1]),
        ("METRIC_COUNT([m, n]) * m", [2, 4, _]),
        ("m * PERIOD(m)", [60, 120, _]),
        ("RATE(m)", [_, 1 / 60, _]),
        ("DIFF(m)", [_, 1, _]),
        ("DIFF_TIME(m)", [_, 60, _]),
        ("RUNNING_SUM(m)", [1, 3, 3]),
        ("TIME_SERIES(MAX(m))", [2, 2, 2]),
        ("CEIL(m / 2) + FLOOR(m / 2) + ABS(0 - m)", [2, 4, _]),
        ("LOG10(m * 10 ^ m)", [1, 2 + 0.3010299956639812, _]),
        ("FIRST(SLICE([m, n], 1))", [_, _, 4]),
    ],
)
def test_operators_and_functions(text, expected):
    assert computed(text, m=[1, 2, _], n=[_, _, 4]) == pytest.approx(expected)


def test_gaps_are_filled_linearly():
    assert computed("FILL(m, LINEAR)", m=[_, 1, _, _, 4, _]) == [_, 1, 2, 3, 4, _]


def test_expressions_may_use_one_another():
    assert computed("share * 100", {"share": "errors / calls"}, errors=[1, 1], calls=[4, 2]) == [25, 50]


def problem(text, expressions=None):
    nodes = {name: parse_expression(other) for name, other in (expressions or {}).items()}
    with pytest.raises(ExpressionError) as refused:
        check(parse_expression(text), Inputs({"m": (1.0, 1.0)}, nodes, 60, 2))
    return str(refused.value)


def test_what_cannot_be_computed_is_told():
    assert problem("SEARCH('x', 'Sum', 300)") == "the function SEARCH is not built in the embedded cloud"
    assert problem("ANOMALY_DETECTION_BAND(m)").startswith("the function ANOMALY_DETECTION_BAND is not built")
    assert problem("m + other") == "no query has the id 'other'"
    assert problem("AVG(m)") == "it gives a single number, where a time series is needed"
    assert problem("METRICS() * 2 + [m, m]") == "two arrays of time series cannot be put together"
    assert problem("[m, m]") == "it gives several time series, where one is needed"
    assert problem("a", {"a": "b", "b": "a + m"}) == "the query 'a' needs itself"
    assert problem("IF(m)") == "IF does not take these arguments"


@pytest.mark.parametrize("text", ["", "m +", "(m", "m m", "m $ 2", "IF(m,", "[m"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)
