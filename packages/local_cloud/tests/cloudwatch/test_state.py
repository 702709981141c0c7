"""Alarm states from evaluation windows, as in CloudWatch's user guide, and their reasons."""

import pytest

from tritonstack_local.cloudwatch.alarm_rules import Condition, Window, decide

MARKS = {"0": 0.0, "X": 9.0, "-": None}
RETAINED = None


def windows(marks):
    """Make windows of five minutes each, the newest last."""
    return [Window(1_700_000_000 + 300 * number, MARKS[mark]) for number, mark in enumerate(marks.split())]


def condition(*, datapoints=None, periods=3, missing="missing", comparison="GreaterThanThreshold"):
    return Condition(comparison, 5.0, periods, datapoints, missing)


def state(marks, **settings):
    decision = decide(windows(marks), condition(**settings))
    return decision and decision.state


# Columns: missing, ignore, breaching, notBreaching.
THREE_OF_THREE = {
    "0 - X - X": ("OK", "OK", "OK", "OK"),
    "0 - - - -": ("OK", "OK", "OK", "OK"),
    "- - - - -": ("INSUFFICIENT_DATA", RETAINED, "ALARM", "OK"),
    "0 X X - X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "- - X - -": ("ALARM", RETAINED, "ALARM", "OK"),
}
TWO_OF_THREE = {
    "0 - X - X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "0 0 X 0 X": ("ALARM", "ALARM", "ALARM", "ALARM"),
    "0 - X - -": ("OK", "OK", "ALARM", "OK"),
    "- - - - 0": ("OK", "OK", "ALARM", "OK"),
    "- - - X -": ("ALARM", RETAINED, "ALARM", "OK"),
}
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize(
    ("datapoints", "marks", "states"),
    [(3, *row) for row in THREE_OF_THREE.items()] + [(2, *row) for row in TWO_OF_THREE.items()],
)
def test_missing_data_is_treated_as_documented(datapoints, marks, states, treatment):
    expected = states[TREATMENTS.index(treatment)]
    assert state(marks, datapoints=datapoints, missing=treatment) == expected


@pytest.mark.parametrize("marks", ["- - - - X", "- - - X -"])
def test_a_sparse_metric_does_not_trigger_early(marks):
    assert state(marks, datapoints=3) != "ALARM"
    assert state(marks, datapoints=3, missing="ignore") is RETAINED


def test_without_datapoints_to_alarm_every_period_must_breach():
    assert state("0 0 X X X") == "ALARM"
    assert state("X X X X 0") == "OK"


def test_one_period_is_evaluated_by_its_newest_value():
    assert state("X X 0", periods=1) == "OK"
    assert state("0 0 X", periods=1) == "ALARM"
    # The last value counts for as long as it is in the evaluation range.
    assert state("X - -", periods=1) == "ALARM"
    assert state("- - -", periods=1) == "INSUFFICIENT_DATA"


@pytest.mark.parametrize(
    ("comparison", "breaching"),
    [
        ("GreaterThanThreshold", (6.0,)),
        ("GreaterThanOrEqualToThreshold", (5.0, 6.0)),
        ("LessThanThreshold", (4.0,)),
        ("LessThanOrEqualToThreshold", (4.0, 5.0)),
    ],
)
def test_comparisons(comparison, breaching):
    asked = condition(comparison=comparison)
    assert tuple(value for value in (4.0, 5.0, 6.0) if asked.breached_by(value)) == breaching
