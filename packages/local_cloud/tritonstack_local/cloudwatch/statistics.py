"""CloudWatch statistics: summarize a period's values, and compute Sum, p99, or PR(:100) of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isclose

# With more distinct values per bucket, they are rounded to three digits: percentiles are then off by at most
# half a percent, and memory use stays bounded.
_EXACT_VALUES = 500

Statistic = Callable[["Summary"], float]


@dataclass(slots=True)
class Summary:
    """The values of a period; `values` counts each value."""

    count: float = 0.0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    values: dict[float, float] = field(default_factory=dict)

    def add(self, value: float, times: float = 1.0) -> None:
        """Add a value that occurred `count` times."""
        self._widen(times, value * times, value, value)
        self._note(value, times)

    def merge(self, other: Summary) -> None:
        """Add another summary."""
        self._widen(other.count, other.total, other.low, other.high)
        for value, times in other.values.items():
            self._note(value, times)

    def _note(self, value: float, times: float) -> None:
        if len(self.values) >= _EXACT_VALUES and value not in self.values:
            value = float(f"{value:.3g}")
        self.values[value] = self.values.get(value, 0.0) + times

    def _widen(self, count: float, total: float, low: float, high: float) -> None:
        self.count += count
        self.total += total
        self.low = min(self.low, low)
        self.high = max(self.high, high)


def merged(summaries: Iterable[Summary]) -> Summary | None:
    """Merge summaries; None if there are none."""
    total = Summary()
    for summary in summaries:
        total.merge(summary)
    return total if total.count else None


_PLAIN: Mapping[str, Statistic] = {
    "SampleCount": lambda summary: summary.count,
    "Sum": lambda summary: summary.total,
    "Average": lambda summary: summary.total / summary.count,
    "Minimum": lambda summary: summary.low,
    "Maximum": lambda summary: summary.high,
}
PLAIN_STATISTICS = tuple(_PLAIN)

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,10})?|100)")
_RANK = re.compile(r"PR\((?P<low>[\d.]+)?:(?P<high>[\d.]+)?\)")


def statistic_named(name: str) -> Statistic | None:
    """Return a statistic by its AWS name; None if it is unknown or not supported."""
    if name in _PLAIN:
        return _PLAIN[name]
    if match := _PERCENTILE.fullmatch(name):
        return _percentile(float(match[1]) / 100)
    match = _RANK.fullmatch(name)
    if match is None or match["low"] == match["high"] is None:
        return None
    return _percentile_rank(float(match["low"] or "-inf"), float(match["high"] or "inf"))


def _percentile(share: float) -> Statistic:
    """Return the smallest value that at least this share of all values does not exceed."""

    def compute(summary: Summary) -> float:
        rank, count = share * summary.count, 0.0
        for value, times in sorted(summary.values.items()):
            count += times
            if count >= rank or isclose(count, rank):
                return value
        return summary.high

    return compute


def _percentile_rank(low: float, high: float) -> Statistic:
    """Return the percentage of values between two bounds."""

    def compute(summary: Summary) -> float:
        within = (times for value, times in summary.values.items() if low < value <= high)
        return 100 * sum(within) / summary.count

    return compute
