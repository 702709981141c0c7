"""Latency histograms agree with the values they count."""

import numpy as np
import pytest

from tritonstack_sizing.loads.histograms import (
    count_latencies,
    from_pairs,
    mean_s,
    percentiles_s,
    to_pairs,
)

PERCENTS = (1.0, 50.0, 90.0, 99.0, 99.5, 100.0)


@pytest.mark.parametrize("scale", [1e-3, 1e-1, 10.0])
def test_percentiles_are_exact_to_half_a_percent(scale):
    values = np.random.default_rng(1).lognormal(0, 1, 5000) * scale
    counts = count_latencies(values)
    expected = np.percentile(values, PERCENTS, method="inverted_cdf")
    assert percentiles_s(counts, PERCENTS) == pytest.approx(expected, rel=0.0051)
    assert mean_s(counts) == pytest.approx(values.mean(), rel=0.0051)


def test_histograms_can_be_added_and_written():
    first, second = count_latencies([0.001, 0.002]), count_latencies([0.002, 5000.0])
    both = from_pairs(to_pairs(first + second))
    assert both.sum() == 4
    assert (both == first + second).all()


@pytest.mark.parametrize("pairs", [[(-1, 1)], [(10**6, 1)], [(3, -2)]])
def test_wrong_buckets_are_rejected(pairs):
    with pytest.raises(ValueError, match="no bucket"):
        from_pairs(pairs)
