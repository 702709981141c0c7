"""Count the instances of a variant while load is sent: scaling may change them meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

PERIOD_S = 5.0


def counts_of(variant: Mapping[str, Any]) -> list[int]:
    """Return how many instances may answer now; while they are scaled, SageMaker reports two numbers."""
    current = int(variant["CurrentInstanceCount"])
    return [current, int(variant.get("DesiredInstanceCount", current))]


class InstanceWatch:
    """Reads the number of instances every few seconds until it is stopped."""

    def __init__(self, read: Callable[[], list[int]], *, period_s: float = PERIOD_S) -> None:
        self._read, self._period_s = read, period_s
        self.counts = read()
        """All numbers so far."""
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
                self.counts += self._read()
            except Exception as error:
                self.failure = error
