"""Route an endpoint's requests to the instances of its variants, also during an update."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping

from tritonstack_local.sagemaker.hosting.capture import Capture
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance
from tritonstack_local.sagemaker.records import LEAST_OUTSTANDING, DeploymentPlan


class NoInstanceError(Exception):
    """No instance of a variant could take the request in time."""

    def __init__(self, pool: InstancePool) -> None:
        super().__init__(f"no instance of {pool.plan.endpoint}/{pool.plan.variant} takes requests")
        self.pool = pool


class InstancePool:
    """The instances of one variant and their running requests. Thread-safe.

    Requests wait while all instances are starting or restarting.
    """

    def __init__(self, plan: DeploymentPlan, *, capture: Capture | None = None) -> None:
        self.plan = plan
        self.capture = capture
        self._serving: list[EndpointInstance] = []
        self._running: dict[EndpointInstance, int] = {}
        self._represented = 0
        self._closed = False
        self._abandoned = False
        self._lock = threading.RLock()
        self._arrivals = threading.Condition(self._lock)
        self._departures = threading.Condition(self._lock)

    @property
    def instances(self) -> list[EndpointInstance]:
        """The instances in service, including restarting ones."""
        with self._arrivals:
            return list(self._serving)

    @property
    def size(self) -> int:
        """The number of instances in service as on AWS; this machine may run fewer servers."""
        return max(self._represented, len(self._serving))

    @property
    def requests(self) -> int:
        """The number of running requests."""
        with self._lock:
            return sum(self._running.values())

    def add(self, instances: Iterable[EndpointInstance]) -> None:
        """Put instances into service."""
        with self._arrivals:
            for instance in instances:
                instance.on_change = self._notice
                self._serving.append(instance)
                self._running[instance] = 0
            self._arrivals.notify_all()

    def represent(self, count: int) -> None:
        """Set the number of instances that the servers stand for: the machine may hold fewer."""
        with self._lock:
            self._represented = count

    def acquire_now(self, target: str | None) -> EndpointInstance | None:
        """Reserve a ready instance for one request; None if there is none."""
        with self._lock:
            return None if self._closed else self._acquire(target)

    def acquire(self, target: str | None, *, deadline: float) -> EndpointInstance | None:
        """Reserve an instance as soon as one is ready; None if the pool is closed.

        Raises NoInstanceError at the deadline.
        """
        with self._arrivals:
            while not self._closed:
                chosen = self._acquire(target)
                if chosen is not None:
                    return chosen
                if not self._arrivals.wait(deadline - time.monotonic()):
                    raise NoInstanceError(self)
            return None

    def release(self, instance: EndpointInstance) -> None:
        """End a reservation."""
        with self._lock:
            if instance in self._running:  # abandoned instances are not counted
                self._running[instance] -= 1
            if instance not in self._serving:
                self._departures.notify_all()

    def dismiss(self, *, keep: int) -> list[EndpointInstance]:
        """Take instances beyond this number out of service; prefer to keep ready ones."""
        with self._arrivals:
            self._serving.sort(key=lambda instance: not instance.available)
            leaving, self._serving = self._serving[keep:], self._serving[:keep]
            self._represented = min(self._represented, keep)
            return leaving

    def close(self) -> list[EndpointInstance]:
        """Close the pool; waiting requests go elsewhere."""
        with self._arrivals:
            self._closed = True
            self._arrivals.notify_all()
        return self.dismiss(keep=0)

    def drain(self, instance: EndpointInstance, *, timeout_s: float) -> None:
        """Wait for the running requests of a dismissed instance."""
        with self._departures:
            self._departures.wait_for(
                lambda: not self._running[instance] or self._abandoned, timeout=timeout_s
            )
            del self._running[instance]

    def abandon(self) -> None:
        """Stop waiting for requests: the cloud is stopping."""
        with self._departures:
            self._abandoned = True
            self._departures.notify_all()
        self.close()

    def _notice(self) -> None:
        with self._arrivals:
            self._arrivals.notify_all()

    def _acquire(self, target: str | None) -> EndpointInstance | None:
        ready = [instance for instance in self._serving if instance.available]
        if not ready:
            return None
        chosen = self._choose(ready, target)
        self._running[chosen] += 1
        return chosen

    def _choose(self, ready: list[EndpointInstance], target: str | None) -> EndpointInstance:
        """Choose an instance by the routing strategy; prefer instances that have loaded the target model."""
        if len(ready) == 1:
            return ready[0]
        holding = [instance for instance in ready if target is not None and _holds(instance, target)]
        candidates = holding or ready
        if self.plan.routing == LEAST_OUTSTANDING:
            return min(candidates, key=self._running.__getitem__)
        return random.choice(candidates)  # noqa: S311 - not used for security


def _holds(instance: EndpointInstance, target: str) -> bool:
    models = instance.container.models
    return models is not None and models.holds(target)


class Fleet:
    """One pool per variant. Thread-safe.

    Requests follow the weights evenly: each goes to the variant furthest behind its share, so that with
    weights 9 and 1 exactly one of ten goes to the second variant.
    """

    def __init__(self, pools: Iterable[InstancePool], *, weights: Mapping[str, float]) -> None:
        self.pools = {pool.plan.variant: pool for pool in pools}
        self._owed = dict.fromkeys(self.pools, 0.0)
        self._weights = dict(weights)
        self._lock = threading.Lock()

    def choose(self, variant: str | None) -> InstancePool | None:
        """Return the pool of the named or next variant; None if it does not exist."""
        with self._lock:
            return self.pools.get(variant or self._next())

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the weights; weights of removed variants are ignored."""
        with self._lock:
            self._weights |= {name: weight for name, weight in weights.items() if name in self._weights}
            self._owed = dict.fromkeys(self._owed, 0.0)

    def _next(self) -> str:
        """Return the next variant by smooth weighted round robin. If all are 0, they are equal."""
        if len(self._weights) == 1:
            return next(iter(self._weights))
        weights = self._weights if sum(self._weights.values()) else dict.fromkeys(self._weights, 1.0)
        for name, weight in weights.items():
            self._owed[name] += weight
        chosen = max((name for name in weights if weights[name]), key=self._owed.__getitem__)
        self._owed[chosen] -= sum(weights.values())
        return chosen


class TrafficSplit:
    """Splits an endpoint's requests between its current and its new fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.arriving: Fleet | None = None
        self._share = 0.0
        self._owed = 0.0
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The fraction of requests that the new fleet gets."""
        return self._share

    def choose(self, variant: str | None) -> InstancePool | None:
        """Return the pool for the next request; None if no fleet has the named variant."""
        with self._lock:
            first, second = self._order()
        return first.choose(variant) or (second.choose(variant) if second is not None else None)

    def announce(self, fleet: Fleet) -> None:
        """Register the new fleet, without traffic."""
        with self._lock:
            self.arriving, self._share, self._owed = fleet, 0.0, 0.0

    def shift(self, share: float) -> None:
        """Send a fraction of the requests to the new fleet."""
        with self._lock:
            self._share = share

    def complete(self) -> None:
        """Make the new fleet the current one."""
        with self._lock:
            if self.arriving is not None:
                self.fleet = self.arriving
            self.arriving, self._share = None, 0.0

    def withdraw(self) -> None:
        """Send all requests to the old fleet."""
        with self._lock:
            self.arriving, self._share = None, 0.0

    def instances_of(self, variant: str) -> int:
        """Return a variant's number of instances in both fleets."""
        fleets = [self.fleet, self.arriving] if self.arriving is not None else [self.fleet]
        return sum([fleet.pools[variant].size for fleet in fleets if variant in fleet.pools])

    def _order(self) -> tuple[Fleet, Fleet | None]:
        """Return the next fleet, then the other one if it takes requests."""
        if self.arriving is None or not self._share:
            return self.fleet, None
        if self._share >= 1:
            return self.arriving, None
        self._owed += self._share
        if self._owed < 1:
            return self.fleet, self.arriving
        self._owed -= 1
        return self.arriving, self.fleet
