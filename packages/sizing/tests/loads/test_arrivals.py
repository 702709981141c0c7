"""When requests are due, and traces that cannot be read."""

import numpy as np
import pytest

from tritonstack_sizing.loads.arrivals import (
    MAX_REQUESTS,
    NoMeasurementsError,
    poisson,
    read_counts,
    read_trace,
)


def test_random_arrivals_have_the_rate_and_the_variation_of_a_poisson_process():
    trace = poisson(50, 400, seed=3)
    per_second = np.bincount(trace.offsets.astype(int), minlength=400)
    assert per_second.mean() == pytest.approx(50, rel=0.03)
    assert per_second.var() == pytest.approx(50, rel=0.25)
    assert (np.diff(trace.offsets) >= 0).all()


def test_a_trace_of_rates(tmp_path):
    file = tmp_path / "day.csv"
    file.write_text("seconds,rate\n10,100\n5,0\n10,400\n")
    trace = read_trace(file, seed=1)
    counts = np.histogram(trace.offsets, bins=[0, 10, 15, 25])[0]
    assert trace.seconds == 25
    assert counts[1] == 0
    assert counts[[0, 2]].tolist() == pytest.approx([1000, 4000], rel=0.1)


def test_a_trace_of_arrivals(tmp_path):
    file = tmp_path / "day.csv"
    file.write_text("at\n0\n0.5\n0.5\n2\n")
    trace = read_trace(file, seed=1)
    assert (trace.offsets.tolist(), trace.seconds) == ([0.0, 0.5, 0.5, 2.0], 2.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: "),
        ("seconds,rate\n10,0\n", ":2: there are no requests"),
        ("seconds,rate\n10,x\n", ":2: could not convert"),
        ("seconds,rate\n10,1\n10\n", ":3: expected 2 numbers"),
        ("seconds,rate\ninf,5\n", ":2: expected 2 numbers"),
        ("at\n2\n1\n", ":3: 1 comes after 2"),
        ("seconds,rate\n1e12,0.000001\n", ":2: the load lasts 11,574,074 days"),
        ("at\n0\n1e12\n", ":2: the load lasts 11,574,074 days"),
        (f"seconds,rate\n1,{MAX_REQUESTS + 1}\n", ":2: there are 5,000,001 requests, more than 5,000,000"),
        (b"at\n\xff\n", ":1: 'utf-8' codec"),
        (None, ":1: No such file"),
    ],
)
def test_an_unreadable_trace(tmp_path, content, message):
    file = tmp_path / "day.csv"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(NoMeasurementsError) as caught:
        read_trace(file, seed=1)
    assert f"{file}{message}" in caught.value.message
    assert "seconds,rate" in str(caught.value.remedy)


def test_a_load_that_is_too_long_to_be_counted_is_unreadable(tmp_path):
    file = tmp_path / "day.csv"
    file.write_text("at\n0\n1e12\n")
    with pytest.raises(NoMeasurementsError, match="more than a year"):
        read_counts(file, step_s=10.0, seed=1)
