"""How a duration grows with a size: the exponent, and whether it is beyond linear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 1.2
"""The largest exponent that counts as linear: durations vary between runs."""
_LEAST_SIZES = 3
_LEAST_S = 0.05
_LEAST_SHARE = 0.03
_ENOUGH_S = 0.3
"""A smaller increase says nothing about its growth."""


@dataclass(frozen=True)
class Growth:
    """The durations of one command at increasing sizes."""

    sizes: Sequence[int]
    seconds: Sequence[float]

    @property
    def ratio(self) -> float:
        """How many times as long the largest size takes as the smallest."""
        return self.seconds[-1] / self.seconds[0]

    @property
    def exponent(self) -> float | None:
        """The exponent of the part that grows, between the two largest sizes.

        None if hardly anything grows, or if there are fewer than three sizes.

        The duration of the smallest size is what every run costs. An increase at the second largest size that
        is within the variation of runs counts as that variation.
        """
        if len(self.sizes) < _LEAST_SIZES:
            return None
        first, before, last = self.seconds[0], self.seconds[-2], self.seconds[-1]
        if last - first < max(_ENOUGH_S, _LEAST_SHARE * first):
            return None
        increase = max(before - first, _LEAST_S, _LEAST_SHARE * before)
        return math.log((last - first) / increase) / math.log(self.sizes[-1] / self.sizes[-2])

    @property
    def is_linear(self) -> bool:
        """Whether it grows at most linearly."""
        return self.exponent is None or self.exponent <= TOLERANCE
