"""Test metric math with the examples of CloudWatch's user guide and the expressions of the stacks."""

import pytest

from tritonstack_local.cloudwatch.queries import (
    ExpressionError,
    Inputs,
    evaluate,
    parse_expression,
)

_ = None


def computed(text, expressions=None, **series):
    metrics = {name: tuple(values) for name, values in series.items()}
    nodes = {name: parse_expression(other) for name, other in (expressions or {}).items()}
    return list(evaluate(parse_expression(text), Inputs(metrics, nodes)))


GUIDE = {"metric1": [1, 1, 0, 0, _], "metric2": [30, _, 0, 0, 30], "metric3": [0, 0, 20, _, 20]}
COMPARED = {"metric1": [30, 20, 0, 0], "metric2": [20, _, 20, _]}


@pytest.mark.parametrize(
    ("text", "series", "expected"),
    [
        ("IF(metric1, metric2, metric3)", GUIDE, [30, 0, 20, _, _]),
        ("IF(metric1, metric2, 5)", GUIDE, [30, 0, 5, 5, _]),
        ("(metric1 < metric2)", COMPARED, [0, 0, 1, 0]),
        ("(metric1 >= 30)", COMPARED, [1, 0, 0, 0]),
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
def test_expressions_of_the_stacks_alarms(text, expected):
    assert computed(text, calls=[7, 0, _, 7], errors=[2, 3, _, _]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * m - -m", [1 + 2 + 1, 1 + 4 + 2, _]),
        ("100 * m / (m + m)", [50, 50, _]),
        ("m / (m - 1)", [_, 2, _]),
        ("m != 1", [0, 1, _]),
        ("m <= 1", [1, 0, _]),
        ("-m", [-1, -2, _]),
        ("\n  m +\n  1", [2, 3, _]),
        ("FILL(m, n)", [1, 2, 4]),
        ("overhead - FILL(loading, 0)".replace("overhead", "n").replace("loading", "m"), [-1, -2, 4]),
    ],
)
def test_operators_and_functions(text, expected):
    assert computed(text, m=[1, 2, _], n=[_, _, 4]) == pytest.approx(expected)


def test_expressions_can_reference_each_other():
    assert computed("share * 100", {"share": "errors / calls"}, errors=[1, 1], calls=[4, 2]) == [25, 50]
    doubled = {f"e{number}": f"e{number - 1} + e{number - 1}" for number in range(1, 200)} | {"e0": "m"}
    assert computed("e199", doubled, m=[1]) == [2.0**199]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("m + other", "'other'"),
        ("a", "'a'"),
        ("1 + 1", "time series"),
        ("IF(m)", "IF"),
        ("FILL(1, 0)", "FILL"),
        ("m * (1 / 0)", "zero"),
        ("SEARCH('x')", "SEARCH"),
        ("AVG(m)", "AVG(m)"),
        ("m[0]", "m[0]"),
        ("m < 1 < 2", "m < 1 < 2"),
        ("m if m else 1", "m if m else 1"),
        ("+" * 900 + "m", ""),
        ("m + " + "9" * 400, "too large"),
    ],
)
def test_unsupported_expressions_are_rejected(text, named):
    nodes = {name: parse_expression(other) for name, other in {"a": "b", "b": "a + m"}.items()}
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse_expression(text), Inputs({"m": (1.0, 1.0)}, nodes))
    assert named in str(caught.value)


@pytest.mark.parametrize("text", ["", "m +", "m m", "m && m", "m # n", "(" * 500])
def test_expression_syntax_errors_are_rejected(text):
    with pytest.raises(ExpressionError):
        parse_expression(text)
