"""What counts as near enough, and how a miss is told."""

from __future__ import annotations

import numpy as np
import pytest

from catalog.models import Accept
from model_build.errors import ParityError
from model_build.parity import compare, judge

RIGHT = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)


def test_equal_answers() -> None:
    report = judge("graph", [compare("a", "y", actual=RIGHT, expected=RIGHT)], Accept())
    assert (report.stage, report.cases, report.min_cosine, report.max_absolute_error) == (
        "graph",
        1,
        1.0,
        0.0,
    )


def test_the_worst_row_counts() -> None:
    actual = RIGHT.copy()
    actual[1] = [0.8, 0.6]
    comparison = compare("a", "y", actual=actual, expected=RIGHT)
    assert comparison.cosine == pytest.approx(0.96)
    assert comparison.absolute == pytest.approx(0.2)


def test_either_bound_can_miss() -> None:
    scaled = compare("a", "y", actual=RIGHT * 2, expected=RIGHT)
    assert scaled.cosine == pytest.approx(1.0)
    assert not scaled.is_within(Accept(cosine=0.9, absolute=0.5))
    turned = compare("a", "y", actual=RIGHT[:, ::-1], expected=RIGHT)
    assert not turned.is_within(Accept(cosine=0.9, absolute=10.0))


def test_a_vector_of_zeros_equals_only_itself() -> None:
    zeros = np.zeros_like(RIGHT)
    assert compare("a", "y", actual=zeros, expected=zeros).cosine == 1.0
    assert not compare("a", "y", actual=zeros, expected=RIGHT).is_within(Accept(cosine=-1, absolute=9))


def test_nan_never_passes() -> None:
    actual = RIGHT.copy()
    actual[0, 0] = np.nan
    with pytest.raises(ParityError, match="nan"):
        judge("served", [compare("a", "y", actual=actual, expected=RIGHT)], Accept(cosine=-1, absolute=9))


def test_another_shape_is_told() -> None:
    with pytest.raises(ParityError, match=r"case 1: y has the shape \[1, 2\], the framework's \[2, 2\]"):
        compare("case 1", "y", actual=RIGHT[:1], expected=RIGHT)


def test_the_table_names_what_missed_worst_first() -> None:
    comparisons = [
        compare("fine", "y", actual=RIGHT, expected=RIGHT),
        compare("near", "y", actual=RIGHT + 0.01, expected=RIGHT),
        compare("far", "y", actual=-RIGHT, expected=RIGHT),
    ]
    with pytest.raises(ParityError) as caught:
        judge("graph", comparisons, Accept())
    lines = caught.value.message.splitlines()
    assert lines[0] == "the exported graph answers otherwise than the framework in 2 of 3 cases"
    assert lines[1].split() == ["case", "output", "cosine", "absolute"]
    assert lines[2].split() == ["far", "y", "-1.0000000", "2.00e+00"]
    assert lines[3].startswith("  near")
    assert lines[4].split() == ["accepted", "y", ">=", "0.9999", "<=", "0.0001"]
    assert caught.value.exit_code == 1
