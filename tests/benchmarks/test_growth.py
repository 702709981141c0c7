"""The growth exponent: what counts as linear, and that faster growth is found."""

from collections.abc import Callable, Sequence

import pytest

from benchmarks.growth.exponents import Growth

MODELS, ENDPOINTS = (1, 10, 100, 1000), (1, 10, 50, 100, 200)


def growth(duration: Callable[[int], float], sizes: Sequence[int]) -> Growth:
    return Growth(sizes, [duration(size) for size in sizes])


@pytest.mark.parametrize("sizes", [MODELS, ENDPOINTS])
@pytest.mark.parametrize(
    "duration",
    [
        pytest.param(lambda _: 5.0, id="nothing grows"),
        pytest.param(lambda size: 5.0 + 0.03 * size, id="linear"),
        pytest.param(lambda size: 0.01 * size, id="nothing but growth"),
        pytest.param(lambda size: 5.0 + size**0.5, id="slower than linear"),
        pytest.param(lambda size: 5.0 + (0.2 if size == max(MODELS) else 0), id="variation"),
    ],
)
def test_linear_growth_passes(duration, sizes):
    assert growth(duration, sizes).is_linear


@pytest.mark.parametrize("sizes", [MODELS, ENDPOINTS])
@pytest.mark.parametrize("share", [0.5, 1.0, 10.0])
def test_quadratic_growth_is_found(sizes, share):
    """Even if it is half of what every run costs at the largest size."""
    measured = growth(lambda size: 5.0 + 5.0 * share * (size / sizes[-1]) ** 2, sizes)
    assert measured.exponent is not None
    assert not measured.is_linear


def test_exponent_and_ratio():
    linear = growth(lambda size: 1.0 + 0.1 * size, MODELS)
    assert linear.exponent == pytest.approx(1.0, abs=0.01)
    assert linear.ratio == pytest.approx(101 / 1.1)
    assert growth(lambda size: 1.0 + size**2, (1, 10)).exponent is None
