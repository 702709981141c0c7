"""CloudWatch statistics: summarize a period's values, and compute Sum, p99, or TM(10%:90%)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isclose

# With more distinct values per bucket, they are rounded to three digits: percentiles are then off by at most
# half a percent, and memory use stays bounded.
_EXACT_VALUES = 500

Statistic = Callable[["Summary"], float | None]


@dataclass(slots=True)
class Summary:
    """The values of a period. `values` counts each value; None for published statistic sets."""

    count: float = 0.0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    values: dict[float, float] = field(default_factory=dict)

    def add(self, value: float, times: float = 1.0) -> None:
        """Add a value that occurred `count` times."""
        self._widen(times, value * times, value, value)
        self._note(value, times)

    def add_set(self, *, count: float, total: float, low: float, high: float) -> None:
        """Add a statistic set; its values are known only if all are equal."""
        if count > 0 and low == high:
            self.add(low, count)
        elif count > 0:
            self._widen(count, total, low, high)

    def merge(self, other: Summary) -> None:
        """Add another summary."""
        self._widen(other.count, other.total, other.low, other.high)
        for value, times in other.values.items():
            self._note(value, times)

    @property
    def distribution(self) -> list[tuple[float, float]] | None:
        """The values with their counts, smallest first; None if not all are known."""
        if not isclose(sum(self.values.values()), self.count):
            return None
        return sorted(self.values.items())

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

_SHORT = re.compile(r"(p|tm|wm|tc|ts)(\d{1,2}(?:\.\d{1,10})?|100)", re.IGNORECASE)
_LONG = re.compile(r"(TM|WM|TC|TS|PR)\(([\d.]+%?)?:([\d.]+%?)?\)", re.IGNORECASE)


def percentile_of(name: str) -> float | None:
    """Return the fraction of a pNN statistic; None for other statistics."""
    match = _SHORT.fullmatch(name)
    return float(match[2]) / 100 if match and match[1].lower() == "p" else None


def statistic_named(name: str) -> Statistic | None:
    """Return a statistic by its AWS name; None if unknown."""
    if name in _PLAIN:
        return _PLAIN[name]
    if name.upper() == "IQM":
        return _trimmed("TM", "25%", "75%")
    if match := _SHORT.fullmatch(name):
        share = percentile_of(name)
        return _percentile(share) if share is not None else _trimmed(match[1].upper(), None, f"{match[2]}%")
    match = _LONG.fullmatch(name)
    if match is None or match[2] == match[3] is None:
        return None
    kind, low, high = match[1].upper(), match[2], match[3]
    percents = {bound.endswith("%") for bound in (low, high) if bound is not None}
    if len(percents) > 1 or (kind == "PR" and True in percents):
        return None
    return _trimmed(kind, low, high)


def _percentile(share: float) -> Statistic:
    def compute(summary: Summary) -> float | None:
        spread = summary.distribution
        return None if spread is None else _at(spread, share)

    return compute


def _at(spread: list[tuple[float, float]], share: float) -> float:
    """Return the smallest value that at least this fraction of all values does not exceed."""
    rank = share * sum(times for _, times in spread)
    count = 0.0
    for value, times in spread:
        count += times
        if count >= rank or isclose(count, rank):
            return value
    return spread[-1][0]


def _trimmed(kind: str, low: str | None, high: str | None) -> Statistic:
    """Return the statistics of values between two bounds, given as percentiles or values."""

    def compute(summary: Summary) -> float | None:
        spread = summary.distribution
        if spread is None:
            return None
        kept = list(_between(spread, low, high))
        count = sum(times for _, times in kept)
        total = sum(value * times for value, times in kept)
        if kind == "PR":
            return 100 * count / summary.count
        if kind in {"TC", "TS"}:
            return count if kind == "TC" else total
        if not count:
            return None
        return total / count if kind == "TM" else _winsorized(kept, spread)

    return compute


def _winsorized(kept: list[tuple[float, float]], spread: list[tuple[float, float]]) -> float:
    """Return the winsorized mean: values outside the bounds count as the nearest bound."""
    least, most = kept[0][0], kept[-1][0]
    total = sum(min(max(value, least), most) * times for value, times in spread)
    return total / sum(times for _, times in spread)


def _between(
    spread: list[tuple[float, float]], low: str | None, high: str | None
) -> Iterator[tuple[float, float]]:
    if (low or high or "").endswith("%"):
        count = sum(times for _, times in spread)
        first = count * float((low or "0%")[:-1]) / 100
        last = count * float((high or "100%")[:-1]) / 100
        reached = 0.0
        for value, times in spread:
            inside = min(reached + times, last) - max(reached, first)
            reached += times
            if inside > 0:
                yield value, inside
        return
    least, most = float(low or "-inf"), float(high or "inf")
    yield from ((value, times) for value, times in spread if least < value <= most)
