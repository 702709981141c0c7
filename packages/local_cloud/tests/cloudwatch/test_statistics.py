"""CloudWatch's statistics of the values of a period."""

import pytest

from tritonstack_local.cloudwatch.store import Summary, statistic_named


def of(values):
    summary = Summary()
    for value in values:
        summary.add(value)
    return summary


TEN = of([10, 1, 2, 3, 4, 5, 6, 7, 8, 9])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SampleCount", 10),
        ("Sum", 55),
        ("Average", 5.5),
        ("Minimum", 1),
        ("Maximum", 10),
        ("p50", 5),
        ("p90", 9),
        ("p99", 10),
        ("p99.9", 10),
        ("p0", 1),
        ("PR(:5)", 50),
        ("PR(2:5)", 30),
        ("PR(8:)", 20),
    ],
)
def test_statistics(name, expected):
    assert statistic_named(name)(TEN) == pytest.approx(expected)


@pytest.mark.parametrize(
    "name", ["Median", "p101", "p", "tm90", "IQM", "TM(2:5)", "PR(:)", "PR(10%:20%)", "sum"]
)
def test_unknown_statistics(name):
    assert statistic_named(name) is None


def test_percentiles_weight_values_by_count():
    summary = Summary()
    summary.add(1.0, 99)
    summary.add(100.0, 1)
    assert statistic_named("p99")(summary) == 1
    assert statistic_named("p99.5")(summary) == 100


def test_many_distinct_values_use_bounded_memory():
    summary = of(number / 1000 for number in range(100_000))
    assert len(summary.values) < 3_000
    assert summary.count == 100_000
    assert statistic_named("p99")(summary) == pytest.approx(99, rel=0.005)
