"""When answers are close enough, and how a miss is reported."""

import numpy as np
import pytest

from model_build.checking.parity import compare, describe_miss, judge, report_of
from model_build.errors import ParityError
from tritonstack.spec.models.tolerance import ModelTolerance

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


def test_mismatches_are_marked_per_output():
    texts, others = (np.array([[text]], dtype=object) for text in ("calm", "cross"))
    broken = RIGHT.copy()
    broken[1, 1] = np.nan
    comparisons = [
        compare("one", "label", actual=texts, expected=others),
        compare("one", "scores", actual=RIGHT + 0.5, expected=RIGHT),
        compare("two", "scores", actual=broken, expected=RIGHT),
        compare("three", "scores", actual=RIGHT, expected=broken),
    ]
    accept = ModelTolerance.model_validate({"outputs": {"scores": {"top1": 1.0, "absolute": 0.1}}})
    with pytest.raises(ParityError) as caught:
        judge("served", comparisons, accept)
    table = [" ".join(line.split()) for line in caught.value.message.splitlines()[1:]]
    assert any(line.startswith("one label -1.0000000! 1.00e+00! 0.000 'calm'") for line in table)
    assert "one scores 0.9486833 5.00e-01! 1.000" in table
    assert ["two", "scores", "nan", "nan!"] in [line.split()[:4] for line in table]
    assert ["three", "scores", "nan", "nan!"] in [line.split()[:4] for line in table]
    assert table[-2:] == ["accepted label >= 0.9999 <= 0.0001 any", "accepted scores any <= 0.1 >= 1.0"]


def test_misses_are_shown_worst_first():
    errors = {"least": 0.1, "most": 0.5, "between": 0.3}
    comparisons = [compare(name, "y", actual=RIGHT + error, expected=RIGHT) for name, error in errors.items()]
    accept = ModelTolerance(cosine=-1, absolute=0.01)
    with pytest.raises(ParityError) as caught:
        judge("graph", comparisons, accept)
    rows = caught.value.message.splitlines()[2:5]
    assert [row.split()[0] for row in rows] == ["most", "between", "least"]
    assert "worst: y of 'most'" in str(describe_miss(comparisons, accept, "fp32"))


def test_equal_infinities_are_left_out():
    far = compare("a", "y", actual=np.array([[-np.inf, 4.0, 3.0]]), expected=MASKED)
    assert (far.cosine, far.relative) == (pytest.approx(0.96), pytest.approx(0.25))


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
