"""The rule of step adjustments, on the examples of AWS's API reference."""

import pytest

from tritonstack.facts.scaling_rules import STEP_AGGREGATES, step_covers

THRESHOLD = 50


@pytest.mark.parametrize(
    ("bounds", "rises", "covered"),
    [
        # "greater than or equal to 50 and less than 60, specify a lower bound of 0 and an upper bound of 10"
        ((0, 10), True, {50, 51, 59}),
        # "greater than 40 and less than or equal to 50, specify a lower bound of -10 and an upper bound of 0"
        ((-10, 0), False, {41, 49, 50}),
        # An alarm's metric at the threshold is on one side of it only.
        ((0, 10), False, {51, 59}),
        ((-10, 0), True, {41, 49}),
        ((10, None), True, {60, 61, 1000}),
        ((None, -10), False, {-1000, 39, 40}),
    ],
)
def test_the_bound_nearer_to_the_threshold_is_inclusive(bounds, rises, covered):
    lower, upper = bounds
    values = (-1000, 39, 40, 41, 49, 50, 51, 59, 60, 61, 1000)
    found = {
        value for value in values if step_covers(value - THRESHOLD, lower=lower, upper=upper, rises=rises)
    }
    assert found == covered


def test_datapoints_are_aggregated():
    assert {name: aggregate([1.0, 2.0, 6.0]) for name, aggregate in STEP_AGGREGATES.items()} == {
        "Average": 3.0,
        "Minimum": 1.0,
        "Maximum": 6.0,
    }
