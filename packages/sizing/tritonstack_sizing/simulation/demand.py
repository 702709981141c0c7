"""The load of a simulation: from a trace, captured requests, or counts per minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.loads.arrivals import Trace, count_arrivals, read_counts
from tritonstack_sizing.simulation.serving import TICK_S

MOST_FOLLOWED = 400_000
"""Requests that are simulated one by one; larger loads are approximated."""
MOST_TICKS = 35 * 24 * 360
"""Longer loads than 35 days are rejected."""
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
_TICKS_PER_MINUTE = 6


@dataclass(frozen=True)
class Demand:
    """When requests arrive."""

    counts: NDArray[np.int64] = field(repr=False)
    """Requests per tick."""
    offsets: NDArray[np.float64] | None = field(default=None, repr=False)
    """The second of each request, unless there are too many."""
    begin: datetime = MONDAY
    """The time of the first second, for schedules."""
    instances: int | None = None
    """Instances in service at the begin, if known: every scaling starts from them, within its limits."""

    @property
    def requests(self) -> int:
        """All requests."""
        return int(self.counts.sum())

    @property
    def seconds(self) -> float:
        """The simulated time, in whole ticks."""
        return len(self.counts) * TICK_S

    def approximated(self) -> Demand:
        """Return the same load without single requests."""
        return replace(self, offsets=None)


def trace_demand(
    file: Path, *, factor: float, begin: datetime, seed: int, most: int = MOST_FOLLOWED
) -> Demand:
    """Return the load of a CSV file; `most` is the number of requests that may be simulated one by one."""
    return _demand(read_counts(file, step_s=TICK_S, seed=seed), factor, begin, seed, most)


def captured_demand(
    trace: Trace, *, factor: float, begin: datetime, seed: int, most: int = MOST_FOLLOWED
) -> Demand:
    """Return the load of captured requests."""
    if factor != 1 or len(trace.offsets) > most:
        return _demand(count_arrivals(trace, step_s=TICK_S), factor, begin, seed, most)
    return Demand(count_arrivals(trace, step_s=TICK_S), trace.offsets, begin)


def counted_demand(
    per_minute: Sequence[float],
    *,
    begin: datetime,
    seed: int,
    most: int = MOST_FOLLOWED,
    instances: int | None = None,
) -> Demand:
    """Return a load from the number of requests per minute, which arrive at random within it."""
    generator = np.random.default_rng(seed)
    even = [1 / _TICKS_PER_MINUTE] * _TICKS_PER_MINUTE
    counts = generator.multinomial(np.round(per_minute).astype(np.int64), even).ravel()
    return replace(_demand(counts, 1.0, begin, seed, most), instances=instances)


def _demand(counts: NDArray[np.int64], factor: float, begin: datetime, seed: int, most: int) -> Demand:
    """Return a load with its requests at random within each tick; a factor draws their number again."""
    generator = np.random.default_rng([seed, 1])
    if factor != 1:
        counts = generator.poisson(counts * factor)
    if counts.sum() > most:
        return Demand(counts, None, begin)
    ticks = np.repeat(np.arange(len(counts)), counts)
    return Demand(counts, np.sort((ticks + generator.random(len(ticks))) * TICK_S), begin)
