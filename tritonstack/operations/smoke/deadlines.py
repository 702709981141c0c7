"""How long smoke requests wait for an endpoint that is just waking up: one deadline for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_LEAST_S = 30.0
"""What a request in a queue gets in any case: its endpoint may have woken up for the one before."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to wait for what may come."""

    seconds: float = 300.0
    """For each endpoint."""
    pause_s: float = 2.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)

    def begin(self) -> Deadline:
        """From now on it runs out."""
        return Deadline(self, self.clock() + self.seconds)


USUAL_PATIENCE = Patience()
PATIENCE_WITH_SLEEPERS = Patience(seconds=1800.0)
"""Where nothing runs an alarm has to notice the requests, a machine to come, image and model to be loaded."""


@dataclass(frozen=True)
class Deadline:
    """When patience with an endpoint ends, whatever is asked of it."""

    patience: Patience
    until: float

    @property
    def now(self) -> float:
        """The time, as the patience counts it."""
        return self.patience.clock()

    @property
    def has_passed(self) -> bool:
        """Whether nothing is tried again any more."""
        return self.now >= self.until

    @property
    def for_an_answer(self) -> float:
        """When a request that is put into a queue now is given up."""
        return max(self.until, self.now + min(_LEAST_S, self.patience.seconds))

    def pause(self) -> None:
        """Let a little time pass before the next try."""
        self.patience.sleep(self.patience.pause_s)
