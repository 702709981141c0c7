"""What a search can choose, what it wants, and what a run showed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

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


Choice = tuple[int, ...]
"""A combination: the position of the value of each dimension."""
LISTED_AT_MOST = 4096
"""Combinations that are considered at once; a larger space is sampled."""


@dataclass(frozen=True)
class Dimension:
    """One setting with its values."""

    name: str
    """Unique, such as `mood: instances`."""
    values: tuple[Any, ...]
    """In order if they are numbers."""
    start: int
    """The position of the value that the files have now."""
    ordered: bool = True
    """Whether neighboring values are alike."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < len(self.values):
            raise ValueError(f"{self.name}: {self.start} is no position of {len(self.values)} values")

    @property
    def places(self) -> tuple[float, ...]:
        """Where the values are on a scale from 0 to 1, by position."""
        return tuple(number / max(1, len(self.values) - 1) for number in range(len(self.values)))


@dataclass(frozen=True)
class SearchSpace:
    """All combinations of some dimensions."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> int:
        """The number of combinations: the runs of an exhaustive grid."""
        return math.prod(len(dimension.values) for dimension in self.dimensions)

    @property
    def start(self) -> Choice:
        """What the files have now."""
        return tuple(dimension.start for dimension in self.dimensions)

    def values(self, choice: Choice) -> dict[str, Any]:
        """Return the values of a combination by the names of the dimensions."""
        return {
            dimension.name: dimension.values[place]
            for dimension, place in zip(self.dimensions, choice, strict=True)
        }

    def grid(self) -> Iterator[Choice]:
        """Yield every combination."""
        return itertools.product(*(range(len(dimension.values)) for dimension in self.dimensions))

    def near(self, choice: Choice) -> Iterator[Choice]:
        """Yield the combinations that differ in one dimension."""
        for index, dimension in enumerate(self.dimensions):
            for place in range(len(dimension.values)):
                if place != choice[index]:
                    yield (*choice[:index], place, *choice[index + 1 :])

    def sample(self, count: int, seed: int) -> list[Choice]:
        """Return different combinations at random: all, in a random order, if there are no more."""
        generator = random.Random(seed)  # noqa: S311 - no secret
        if self.size <= max(count, LISTED_AT_MOST):
            everything = list(self.grid())
            generator.shuffle(everything)
            return everything[:count]
        choices = dict[Choice, None]()
        while len(choices) < count:
            choices[tuple(generator.randrange(len(dimension.values)) for dimension in self.dimensions)] = None
        return list(choices)

    def candidates(self, around: Sequence[Choice], seed: int) -> list[Choice]:
        """Return the combinations to consider: all, or a sample and what is near the given ones."""
        if self.size <= LISTED_AT_MOST:
            return list(self.grid())
        near = [neighbor for choice in around for neighbor in self.near(choice)]
        return list(dict.fromkeys([*around, *near, *self.sample(LISTED_AT_MOST // 2, seed)]))
