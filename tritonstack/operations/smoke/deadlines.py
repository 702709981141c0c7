"""Deadlines for smoke requests to endpoints that may be scaling up from zero."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_LEAST_S = 30.0
"""The minimum time for a queued request, even if the endpoint needed most of the deadline to start."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for an answer."""

    seconds: float = 300.0
    """Per endpoint."""
    pause_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def begin(self) -> Deadline:
        """Start the deadline."""
        return Deadline(self, self.clock() + self.seconds)


USUAL_PATIENCE = Patience()
PATIENCE_WITH_SLEEPERS = Patience(seconds=1800.0)
"""Scaling from zero takes time for the alarm, the instance, the image, and the model."""


@dataclass(frozen=True)
class Deadline:
    """The deadline of one endpoint."""

    patience: Patience
    until: float

    @property
    def now(self) -> float:
        """Return the current time."""
        return self.patience.clock()

    @property
    def has_passed(self) -> bool:
        """Return whether the deadline has passed."""
        return self.now >= self.until

    @property
    def for_an_answer(self) -> float:
        """Return the deadline of a request that is queued now."""
        return max(self.until, self.now + min(_LEAST_S, self.patience.seconds))

    def pause(self) -> None:
        """Pause before the next attempt."""
        self.patience.sleep(self.patience.pause_s)
