"""Instances are counted from the start to the end of a load; an unknown number is reported."""

import threading
from collections.abc import Callable, Sequence

import pytest

from tritonstack_sizing.loads.evidence import InstanceWatch, counts_of


def reading(counts: Sequence[int]) -> tuple[Callable[[], list[int]], threading.Event]:
    """Return what reads one number after the other, and repeats the last; and when it has read that."""
    remaining, done = list(counts), threading.Event()

    def read() -> list[int]:
        count = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if len(remaining) == 1:
            done.set()
        return [count]

    return read, done


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([2], (2, 2)), ([2, 5], (2, 5)), ([2, 5, 1, 3], (1, 5)), ([0, 0, 4], (0, 4))],
)
def test_the_extremes_of_a_load_are_kept(counts, expected):
    read, done = reading(counts)
    watch = InstanceWatch(read, period_s=0.001)
    assert done.wait(30)
    watch.stop()
    assert (min(watch.counts), max(watch.counts)) == expected


def test_an_unknown_number_is_a_failure():
    answers = [[1]]

    def read() -> list[int]:
        if not answers:
            raise TimeoutError("no answer")
        return answers.pop()

    watch = InstanceWatch(read, period_s=3600)
    watch.stop()
    assert str(watch.failure) == "no answer"
    with pytest.raises(TimeoutError):
        InstanceWatch(read)


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ({"CurrentInstanceCount": 2}, (2, 2)),
        ({"CurrentInstanceCount": 2, "DesiredInstanceCount": 2}, (2, 2)),
        ({"CurrentInstanceCount": 2, "DesiredInstanceCount": 5}, (2, 5)),
        ({"CurrentInstanceCount": 5, "DesiredInstanceCount": 1}, (5, 1)),
        ({"CurrentInstanceCount": 0, "DesiredInstanceCount": 1}, (0, 1)),
    ],
)
def test_scaling_under_way_has_two_numbers(variant, expected):
    assert counts_of(variant) == list(expected)
