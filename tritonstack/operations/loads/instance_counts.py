"""Count the instances of a variant while load is sent: scaling may change them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

PERIOD_S = 5.0


@dataclass(frozen=True)
class InstanceCounts:
    """The lowest and the highest number of instances in a period."""

    lowest: int
    highest: int

    def joined(self, other: InstanceCounts) -> InstanceCounts:
        """Return the counts of both periods together."""
        return InstanceCounts(min(self.lowest, other.lowest), max(self.highest, other.highest))


def counts_of(variant: Mapping[str, Any]) -> InstanceCounts:
    """Return how many instances may answer now; while they are scaled, SageMaker reports two numbers."""
    current = int(variant["CurrentInstanceCount"])
    desired = int(variant.get("DesiredInstanceCount", current))
    return InstanceCounts(min(current, desired), max(current, desired))


class InstanceWatch:
    """Reads the number of instances every few seconds until it is stopped."""

    def __init__(self, read: Callable[[], InstanceCounts], *, period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self.counts = read()
        """The lowest and the highest number so far."""
        self.failure: Exception | None = None
        """Why a number is unknown."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read the number for the last time."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        is_last = False
        while not is_last and self.failure is None:
            is_last = self._stopped.wait(self._period_s)
            try:
                self.counts = self.counts.joined(self._read())
            except Exception as error:
                self.failure = error
