"""The settings that a search can choose, and the combinations of their values."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
