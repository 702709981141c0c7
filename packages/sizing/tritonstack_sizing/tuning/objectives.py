"""What a search wants: the highest throughput below a latency, or the lowest latency at a rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from tritonstack.base.results import Figure, Rounded

MOST_FAILED = 0.001
"""A larger share of failed requests is a failure of the configuration."""
LEAST_ANSWERED = 0.97
"""A configuration that answers less than this share of a rate cannot keep up with it."""
_FREE = 1.0
"""More slack than this has no meaning."""


@dataclass(frozen=True)
class Measured:
    """What one run showed."""

    answered_per_s: Figure
    p50_ms: Figure
    p99_ms: Figure
    failed_share: Annotated[float, Rounded(6)] = 0.0
    violation: str = ""
    """Why there is nothing to measure; empty for a run that worked."""

    @property
    def usable(self) -> bool:
        """Whether it answered, and the figures are those of answers."""
        return not self.violation and self.answered_per_s > 0 and math.isfinite(self.p99_ms)


@dataclass(frozen=True)
class Objective:
    """What to optimize: by default the throughput of a closed loop."""

    p99_ms: float | None = None
    """Highest p99 of the answers."""
    rate: float | None = None
    """Requests per second of an open loop, whose p99 is to be as low as possible."""

    @property
    def is_limited(self) -> bool:
        """Whether a run that answers can still be beyond a limit."""
        return self.p99_ms is not None or self.rate is not None

    def describe(self) -> str:
        """Return the objective in words."""
        if self.rate is not None:
            return f"lowest p99 at {self.rate:g} requests per second"
        limit = "" if self.p99_ms is None else f" with p99 <= {self.p99_ms:g} ms"
        return f"highest throughput{limit}"

    def meets(self, figures: Measured, *, tolerance: float = 0.0) -> bool:
        """Return whether a run stays within the limits."""
        if not figures.usable or figures.failed_share > MOST_FAILED:
            return False
        if self.rate is not None and figures.answered_per_s < LEAST_ANSWERED * self.rate:
            return False
        return self.p99_ms is None or figures.p99_ms <= self.p99_ms * (1 + tolerance)

    def gain(self, figures: Measured) -> float:
        """Return the logarithm of what is to be large, whether or not the limits are met."""
        return -math.log(figures.p99_ms) if self.rate is not None else math.log(figures.answered_per_s)

    def slack(self, figures: Measured) -> float:
        """Return how far a run is within the limits, as a logarithm; negative beyond them."""
        slacks = [_FREE]
        if self.p99_ms is not None:
            slacks.append(math.log(self.p99_ms / figures.p99_ms))
        if self.rate is not None:
            slacks.append(math.log(figures.answered_per_s / (LEAST_ANSWERED * self.rate)))
        if figures.failed_share > MOST_FAILED:
            slacks.append(-min(1.0, 10 * figures.failed_share))
        return min(slacks)
