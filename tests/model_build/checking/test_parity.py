"""When answers are close enough, and how a miss is reported."""

import numpy as np
import pytest

from model_build.checking.parity import compare, judge, report_of
from model_build.errors import ParityError
from tritonstack.files.model.tolerance import ModelTolerance

RIGHT = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
MASKED = np.array([[-np.inf, 3.0, 4.0]])


def test_equal_answers():
    report = judge("graph", [compare("a", "y", actual=RIGHT, expected=RIGHT)], ModelTolerance())
    numbers = (report.stage, report.cases, report.min_cosine, report.max_absolute_error)
    assert numbers == ("graph", 1, 1.0, 0.0)


@pytest.mark.parametrize("order", [1, -1])
def test_the_report_names_the_loosest_bounds_of_each_output(order):
    """In int8, rows of one number have other bounds than rows of several."""
    numbers = RIGHT[:, :1] + 1
    comparisons = [
        compare("several", "y", actual=RIGHT, expected=RIGHT),
        compare("one", "y", actual=numbers, expected=numbers),
    ][::order]
    report = judge("graph", comparisons, ModelTolerance(), precision="int8")
    assert {name: str(bounds) for name, bounds in report.accepted.items()} == {"y": "relative <= 0.3"}


def test_the_report_names_the_input_with_the_lowest_cosine():
    """Among equal cosines, the largest error decides."""
    turned = RIGHT[:, ::-1]
    cases = {"right": RIGHT, "scaled": RIGHT * 3, "turned": turned, "turned and scaled": turned * 2}
    comparisons = [compare(name, "y", actual=actual, expected=RIGHT) for name, actual in cases.items()]
    assert report_of("graph", comparisons).worst_case == "turned and scaled"
    assert report_of("graph", comparisons[:2]).worst_case == "scaled"


def test_the_worst_row_counts():
    actual = RIGHT.copy()
    actual[1] = [0.8, 0.6]
    comparison = compare("a", "y", actual=actual, expected=RIGHT)
    assert comparison.cosine == pytest.approx(0.96)
    assert comparison.absolute == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("actual", "expected", "accept", "right"),
    [
        (RIGHT * 2, RIGHT, ModelTolerance(cosine=0.9, absolute=0.5), False),  # its cosine is 1
        (RIGHT[:, ::-1], RIGHT, ModelTolerance(cosine=0.9, absolute=10.0), False),
        (RIGHT * 0, RIGHT * 0, ModelTolerance(cosine=1.0), True),  # a vector of zeros equals only itself
        (RIGHT * 0, RIGHT, ModelTolerance(cosine=0.1, absolute=9), False),
        (
            MASKED + np.array([0, 1e-6, 0]),
            MASKED,
            ModelTolerance(cosine=0.9999, absolute=1e-4, relative=1e-5),
            True,
        ),
        (np.array([[0.0, 3.0, 4.0]]), MASKED, ModelTolerance(top1=0), False),
    ],
)
def test_every_bound_counts(actual, expected, accept, right):
    assert compare("a", "y", actual=actual, expected=expected).is_within(accept) == right


def test_nan_never_passes():
    actual = RIGHT.copy()
    actual[0, 0] = np.nan
    comparisons = [compare("a", "y", actual=actual, expected=RIGHT)]
    with pytest.raises(ParityError, match="nan"):
        judge("served", comparisons, ModelTolerance(cosine=-1, absolute=9))


def test_a_different_shape_is_reported():
    with pytest.raises(ParityError, match=r"case 1: .*\[1, 2\].*\[2, 2\]"):
        compare("case 1", "y", actual=RIGHT[:1], expected=RIGHT)


@pytest.mark.parametrize(
    ("precision", "actual", "expected", "right"),
    [
        ("int8", [[2.0]], [[2.1]], True),
        ("int8", [[2.0]], [[9.0]], False),  # of one sign: the cosine is 1
        ("fp16", [[100]], [[100]], True),
        ("fp16", [[100]], [[101]], False),  # another label, however near its number
        ("int8", [[[3, 3, 1]]], [[[3, 3, 1]]], True),
        ("int8", [[[3, 3, 1]]], [[[3, 2, 1]]], False),
        ("int8", [[True]], [[False]], False),
        ("int8", [[1.0, 2.0]], [[1.05, 2.0]], True),
    ],
)
def test_numbers_and_labels_are_compared_by_type(precision, actual, expected, right):
    comparisons = [compare("a", "y", actual=np.array(actual), expected=np.array(expected))]
    if right:
        judge("graph", comparisons, ModelTolerance(), precision=precision)
        return
    with pytest.raises(ParityError):
        judge("graph", comparisons, ModelTolerance(), precision=precision)
    judge("graph", comparisons, ModelTolerance(absolute=10), precision=precision)
