"""An endpoint's traffic: all of it to one fleet, or while an update is on its way a part to the next one."""

from __future__ import annotations

import threading

from tritonstack_local.sagemaker.fleet import Fleet, Pool


class Traffic:
    """Splits an endpoint's requests between its fleet and the one that is to follow it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.arriving: Fleet | None = None
        self._share = 0.0
        self._owed = 0.0
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The part of the requests that the fleet that arrives gets."""
        return self._share

    def choose(self, variant: str | None) -> Pool | None:
        """Give the pool that the next request goes to; None if no fleet has the variant that it names."""
        with self._lock:
            first, second = self._order()
        return first.choose(variant) or (second.choose(variant) if second is not None else None)

    def announce(self, fleet: Fleet) -> None:
        """Let a fleet be seen that takes no requests yet."""
        with self._lock:
            self.arriving, self._share, self._owed = fleet, 0.0, 0.0

    def shift(self, share: float) -> None:
        """Send a part of the requests to the fleet that arrives."""
        with self._lock:
            self._share = share

    def complete(self) -> None:
        """Make the fleet that has arrived the endpoint's own."""
        with self._lock:
            if self.arriving is not None:
                self.fleet = self.arriving
            self.arriving, self._share = None, 0.0

    def withdraw(self) -> None:
        """Send everything to the fleet of before."""
        with self._lock:
            self.arriving, self._share = None, 0.0

    def instances_of(self, variant: str) -> int:
        """Count a variant's instances in both fleets."""
        fleets = [self.fleet, self.arriving] if self.arriving is not None else [self.fleet]
        return sum(len(fleet.pools[variant].instances) for fleet in fleets if variant in fleet.pools)

    def _order(self) -> tuple[Fleet, Fleet | None]:
        """The fleet whose turn it is, and the other one, if it takes requests at all."""
        if self.arriving is None or not self._share:
            return self.fleet, None
        if self._share >= 1:
            return self.arriving, None
        self._owed += self._share
        if self._owed < 1:
            return self.fleet, self.arriving
        self._owed -= 1
        return self.arriving, self.fleet
