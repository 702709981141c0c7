"""Latency histograms: buckets that are 1 % wide, so that percentiles are exact to half a percent.

They can be added, are small in files, and keep what averages lose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
_GROWTH = math.log(1.01)
_LEAST_S = 1e-6
BUCKETS = math.ceil(math.log(3600 / _LEAST_S) / _GROWTH)
"""Up to one hour."""


def count_latencies(latencies_s: Iterable[float]) -> Counts:
    """Return how many latencies are in each bucket."""
    return np.bincount(bucket_of(np.fromiter(latencies_s, dtype=np.float64)), minlength=BUCKETS)


def bucket_of(latencies_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bucket of each latency."""
    buckets = np.log(np.maximum(latencies_s, _LEAST_S) / _LEAST_S) / _GROWTH
    return np.minimum(buckets.astype(np.int64), BUCKETS - 1)


def percentiles_s(counts: NDArray[np.generic], percents: Sequence[float]) -> NDArray[np.float64]:
    """Return percentiles of one histogram, or of each row of several; NaN if one is empty."""
    rows = np.atleast_2d(counts).astype(np.float64)
    cumulated = np.cumsum(rows, axis=1)
    totals = cumulated[:, -1]
    result = np.empty((len(rows), len(percents)))
    for column, percent in enumerate(percents):
        ranks = np.maximum(np.ceil(np.round(totals * percent / 100, 6)), 1)
        result[:, column] = _middle_s((cumulated < ranks[:, None]).sum(axis=1))
    result[totals == 0] = np.nan
    return result[0] if np.ndim(counts) == 1 else result


def mean_s(counts: Counts) -> float:
    """Return the mean; NaN if there is nothing."""
    total = int(counts.sum())
    return float(counts @ _middle_s(np.arange(BUCKETS)) / total) if total else math.nan


def to_pairs(counts: Counts) -> list[tuple[int, int]]:
    """Return the buckets that are not empty, for a file."""
    return [(int(bucket), int(counts[bucket])) for bucket in np.flatnonzero(counts)]


def from_pairs(pairs: Iterable[Sequence[int]]) -> Counts:
    """Return the histogram of `to_pairs`; raise ValueError for anything else."""
    counts = np.zeros(BUCKETS, dtype=np.int64)
    for bucket, count in pairs:
        if not 0 <= bucket < BUCKETS or count < 0:
            raise ValueError(f"no bucket of a histogram: {bucket}, {count}")
        counts[bucket] += count
    return counts


def _middle_s(buckets: NDArray[np.int64]) -> NDArray[np.float64]:
    middle: NDArray[np.float64] = _LEAST_S * np.exp((buckets + 0.5) * _GROWTH)
    return middle
