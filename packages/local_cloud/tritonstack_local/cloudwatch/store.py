"""Store metric values, aggregated in time buckets; expired buckets are removed.

AWS keeps high-resolution values per second for three hours, and others per minute for 15 days. Here a bucket
lasts ten (scaled) seconds, the shortest alarm period, and is kept for three hours or a scaled day, whichever
is longer. Values older than a scaled day, the longest range of alarms with short periods, are merged per real
minute. A restart drops all values.
"""

from __future__ import annotations

import re
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, floor, isclose
from typing import Any

from tritonstack_local.scope import Scope
from tritonstack_local.settings import DEFAULT_TIME_SCALE, TimeScale

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


def seconds(moment: datetime) -> float:
    """Return a date as seconds; without a time zone it is UTC, as in moto."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment(at: float) -> datetime:
    """Return a date in moto's format: UTC without time zone."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def timestamp(at: float) -> str:
    """Format a time as in CloudWatch's JSON."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date:%Y-%m-%dT%H:%M:%S}.{date.microsecond // 1000:03d}+0000"


BUCKET_S = 10
"""Duration of a bucket on AWS."""
_BUCKETS_A_MINUTE = 6
_DAY_S = 86_400
_KEPT_S = 3 * 3600
_COARSE_S = 60
# Tolerance for rounding errors of bucket bounds.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class MetricKey:
    """The identity of a metric: scope, namespace, name, and dimensions in any order."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Span:
    """Consecutive windows of equal length, starting at a time (seconds since 1970)."""

    start: float
    length_s: float
    count: int

    @property
    def starts(self) -> list[float]:
        """The start of each window."""
        return [self.start + number * self.length_s for number in range(self.count)]


@dataclass
class _Series:
    buckets: dict[int, dict[str, Summary]] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    late: int = 0


class MetricStore:
    """All metric values of all scopes. Thread-safe."""

    def __init__(self, *, time_scale: TimeScale = DEFAULT_TIME_SCALE) -> None:
        self._lock = threading.Lock()
        self.start_over(time_scale)

    def start_over(self, time_scale: TimeScale) -> None:
        """Delete all values and use this time scale."""
        with self._lock:
            self._series: dict[tuple[Scope, MetricKey], _Series] = {}
            self.bucket_s = time_scale.lasting(BUCKET_S)
            self.minute_s = self.bucket_s * _BUCKETS_A_MINUTE
            self._fine_s = time_scale.lasting(_DAY_S)
            self._kept_s = max(_KEPT_S, self._fine_s)

    def put(self, scope: Scope, key: MetricKey, unit: str, values: Summary, *, at: float) -> None:
        """Add values of one point in time."""
        number, now = floor(at / self.bucket_s + _ROUNDING), time.time()
        with self._lock:
            series = self._series.setdefault((scope, key), _Series())
            if number not in series.buckets:
                series.buckets[number] = {}
                insort(series.order, number)
            series.buckets[number].setdefault(unit, Summary()).merge(values)
            series.late += number < floor(now / self.minute_s) * _BUCKETS_A_MINUTE
            self._drop_old(series, now)

    def add(
        self, scope: Scope, key: MetricKey, unit: str, value: float, *, at: float, times: int = 1
    ) -> None:
        """Add a value that occurred so many times."""
        values = Summary()
        values.add(value, times)
        self.put(scope, key, unit, values, at=at)

    def windows(self, scope: Scope, key: MetricKey, span: Span, *, unit: str | None) -> list[Summary | None]:
        """Return the values per window, of one unit or all units; None for empty windows."""
        windows: list[list[Summary]] = [[] for _ in range(span.count)]
        with self._lock:
            series = self._series.get((scope, key))
            for number in self._numbers(series, span):
                window = floor((number * self.bucket_s - span.start) / span.length_s + _ROUNDING)
                buckets = series.buckets[number] if series else {}
                if 0 <= window < span.count:
                    windows[window] += [buckets[name] for name in buckets if unit in {None, name}]
            return [merged(summaries) for summaries in windows]

    def version(self, scope: Scope, key: MetricKey) -> int:
        """Return a number that changes when a late value arrives."""
        series = self._series.get((scope, key))
        return series.late if series else 0

    def newest(self, scope: Scope, key: MetricKey) -> float:
        """Return the start of a metric's newest bucket; 0 if it has none."""
        series = self._series.get((scope, key))
        return series.order[-1] * self.bucket_s if series and series.order else 0.0

    def keys(self, scope: Scope) -> list[MetricKey]:
        """List the metrics that have values."""
        with self._lock:
            return [key for where, key in self._series if where == scope]

    def forget_old(self) -> None:
        """Delete expired buckets and empty metrics; merge old buckets."""
        now = time.time()
        with self._lock:
            for address, series in list(self._series.items()):
                self._drop_old(series, now)
                self._sum_up(series, now)
                if not series.order:
                    del self._series[address]

    def _numbers(self, series: _Series | None, span: Span) -> Iterable[int]:
        if series is None:
            return ()
        order = series.order
        first = bisect_left(order, ceil(span.start / self.bucket_s - _ROUNDING))
        end = span.start + span.count * span.length_s
        return order[first : bisect_left(order, ceil(end / self.bucket_s - _ROUNDING))]

    def _sum_up(self, series: _Series, now: float) -> None:
        """Merge buckets older than a scaled day, per real minute."""
        length = round(max(self.minute_s, _COARSE_S) / self.bucket_s)
        end = floor((now - self._fine_s) / self.bucket_s) // length * length
        for number in series.order[: bisect_left(series.order, end)]:
            first = number // length * length
            if number != first:
                into = series.buckets.setdefault(first, {})
                for unit, summary in series.buckets.pop(number).items():
                    into.setdefault(unit, Summary()).merge(summary)
        series.order = sorted(series.buckets)

    def _drop_old(self, series: _Series, now: float) -> None:
        oldest = floor((now - self._kept_s) / self.bucket_s)
        gone = bisect_left(series.order, oldest)
        for number in series.order[:gone]:
            del series.buckets[number]
        del series.order[:gone]


def key_of(metric: Mapping[str, Any]) -> MetricKey:
    """Create a metric's key from API fields."""
    dimensions = frozenset((item["Name"], item["Value"]) for item in metric.get("Dimensions") or ())
    return MetricKey(metric["Namespace"], metric["MetricName"], dimensions)


METRICS = MetricStore()
"""The metric store of this process, which moto's CloudWatch reads."""
