"""Approximate the queues of a variant tick by tick, for loads with too many requests to follow each.

Backlogs are fluids. The router fills the instances with the shortest queues first, so a new instance takes
all new requests while the old ones work off their queues. An asynchronous endpoint has one queue for all. On
top of the backlog, requests wait as in an M/G/c queue: Sakasegawa's formula gives the probability to wait,
and the wait is exponential (Allen and Cunneen). Tests compare it with the simulation of each request.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.simulation.serving import (
    TICK_S,
    ServingSetup,
    SliceLatencies,
    TickLoad,
    sort_into_slices,
)

_SAMPLES, _ALL_SAMPLES, _FEWEST_SAMPLES = 96, 200_000, 16
"""Latencies per tick, fewer for long loads: even steps of probability, so that percentiles are steady."""
_SMOOTHED_TICKS = 13
_FULL = 0.99
"""The highest utilization for which a queue has a stationary wait; beyond it, the backlog tells."""


class FluidQueues:
    """The instances of a variant, as fluids."""

    def __init__(self, setup: ServingSetup, counts: NDArray[np.int64], *, seed: int) -> None:
        self._setup = setup
        self._counts = counts
        self._random = np.random.default_rng(seed)
        self._levels = np.zeros(0)
        """Waiting requests per instance; of an asynchronous endpoint, its queue's share."""
        self._has_backlog = False
        self._central = 0.0
        ticks = len(counts)
        self._samples = max(_FEWEST_SAMPLES, min(_SAMPLES, _ALL_SAMPLES // max(1, ticks)))
        self._in_service = np.zeros(ticks, dtype=np.int64)
        self._wait_s = np.zeros((ticks, 2))
        """How long a request waits that arrives at the begin and at the end of a tick."""
        self._served = np.zeros(ticks)
        self._refused = np.zeros(ticks)

    def resize(self, count: int) -> None:
        """Serve with so many instances; those that are removed finish what they have."""
        had = len(self._levels)
        if count == had:
            return
        self._levels = (
            self._levels[:count] if count <= had else np.concatenate([self._levels, np.zeros(count - had)])
        )

    def run(self, tick: int) -> TickLoad:
        """Serve the requests that arrive in a tick."""
        setup, instances, count = self._setup, len(self._levels), int(self._counts[tick])
        most = setup.curve.capacity * TICK_S
        if setup.queued:
            waiting = self._central + count
            served = min(waiting, instances * most)
            self._central = waiting - served
            self._served[tick] = served
            backlog = 0.0 if not instances else self._central / instances
            refused = 0
        elif instances:
            refused = self._fill(tick, count, most)
            backlog = float(self._levels.mean()) if self._has_backlog else 0.0
        else:
            refused, backlog = count, 0.0
        self._in_service[tick], self._refused[tick] = instances, refused
        peak, busy = self._measures(count - refused, backlog, instances)
        return TickLoad(
            begin=tick * TICK_S,
            requests=count,
            instances=instances,
            unserved=refused,
            concurrency=peak,
            busy=busy,
            backlog=self._central + busy * instances * setup.curve.slots,
        )

    def _fill(self, tick: int, count: int, most: float) -> int:
        """Give a tick's requests to the instances with the shortest queues; return how many are refused."""
        capacity, limit = self._setup.curve.capacity, self._setup.queue_limit
        if not self._has_backlog and count <= most * len(self._levels):
            return 0  # the usual case: nothing waits for longer than a tick
        remaining = self._levels - most
        """Below zero: requests that an instance could still serve in this tick."""
        ordered = np.sort(remaining)
        # The level up to which so many requests fill the lowest ones.
        sums = np.cumsum(ordered)
        depths = (count + sums) / np.arange(1, len(ordered) + 1)
        fits = int(np.searchsorted(ordered - depths, 0.0))
        level = float(depths[max(0, min(fits, len(ordered)) - 1)])
        refused = 0
        if limit and level > limit:
            refused = min(count, round(float(np.maximum(0.0, level - np.maximum(remaining, limit)).sum())))
            level = float(limit)
        self._wait_s[tick] = float(self._levels.min()) / capacity, max(0.0, level) / capacity
        self._levels = np.maximum(0.0, np.maximum(remaining, level))
        self._has_backlog = bool(self._levels.any())
        return refused

    def _measures(self, count: int, backlog: float, instances: int) -> tuple[float, float]:
        """Return the most requests at once per instance, and the used share of all slots."""
        curve = self._setup.curve
        if not instances:
            return 0.0, 0.0
        load = min(1.0, count / (TICK_S * instances * curve.capacity))
        if backlog >= 1:
            full = 1.0 if self._setup.queued else float((self._levels > 0).mean())
            used = max(load, full)
            return math.ceil(used * curve.slots + backlog), used
        busy = curve.busy_slots(load * curve.capacity)
        peak = self._peak(busy * instances, load, instances) if count else 0.0
        return math.ceil(peak / instances), busy / curve.slots

    def _peak(self, busy: float, load: float, instances: int) -> float:
        """Return about the most requests at once in a tick: the highest of many random values.

        In service they vary nearly as a Poisson number. Queues have a geometric tail, and as many independent
        values as relaxation times fit into the tick.
        """
        curve = self._setup.curve
        in_service = busy + math.sqrt(2 * busy * math.log(max(2.0, load * instances * curve.capacity)))
        if load >= _FULL:
            return max(in_service, float(instances * curve.slots))
        servers, spread = instances * curve.slots, (1 + curve.variation) / 2
        relaxation_s = curve.slots / curve.capacity * spread / (servers * (1 - load) ** 2)
        queues = TICK_S / relaxation_s * load ** (math.sqrt(2 * (servers + 1)) - 1)
        return max(in_service, servers + math.log(queues) * spread / (1 - load) if queues > 1 else 0.0)

    def latencies(self, slices: int, slice_s: float) -> SliceLatencies:
        """Return all latencies."""
        setup, curve = self._setup, self._setup.curve
        accepted = self._counts - self._refused
        used = np.flatnonzero(accepted)
        position = self._shuffled(len(used))
        wait = self._queued(accepted, used, position) if setup.queued else self._routed(used, position)
        instances = np.maximum(self._in_service[used], 1)
        # The formulas count the variation within some minutes; counts of single ticks would add it again.
        rate = _smoothed(accepted)[used] / TICK_S
        load = np.minimum(rate / (instances * curve.capacity), _FULL)
        load = np.where(wait.max(axis=1, initial=0.0) > 0, _FULL, load)
        service = curve.service_s(load * curve.capacity)
        servers = instances * curve.slots
        waits = _waiting_share(load, servers)
        mean = service * (1 + curve.variation) / 2 / (servers * (1 - load))
        luck = self._shuffled(len(used))
        tail = -np.log(np.minimum(1.0, luck / np.maximum(waits, 1e-12)[:, None])) * mean[:, None]
        wait = np.where(wait > 0, wait, np.minimum(tail, TICK_S))
        picked = (self._shuffled(len(used)) * len(curve.shape)).astype(np.int64)
        arrived = ((used[:, None] + position) * TICK_S).ravel()
        weights = np.repeat(accepted[used] / self._samples, self._samples)
        # Without an instance at the end, some requests are never served.
        waits_on = np.isinf(wait).ravel() & (len(accepted) * TICK_S - arrived <= setup.timeout_s)
        latencies_by_slice = sort_into_slices(
            arrived,
            (wait + service[:, None] * curve.shape[picked]).ravel(),
            np.where(waits_on, 0.0, weights),
            shape=(slices, slice_s),
            timeout_s=setup.timeout_s,
        )
        begins = np.arange(len(accepted)) * TICK_S
        when = np.minimum((begins / slice_s).astype(np.int64), slices - 1)
        refused = np.bincount(when, weights=self._refused, minlength=slices)
        return SliceLatencies(
            latencies_by_slice.counts,
            latencies_by_slice.lost + refused,
            waiting=float(weights[waits_on].sum()),
        )

    def _routed(self, used: NDArray[np.int64], position: NDArray[np.float64]) -> NDArray[np.float64]:
        begin, end = self._wait_s[used, 0], self._wait_s[used, 1]
        wait: NDArray[np.float64] = begin[:, None] + (end - begin)[:, None] * position
        return wait

    def _queued(
        self, accepted: NDArray[np.float64], used: NDArray[np.int64], position: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how long requests of one queue wait: until as many have been served as were before them."""
        edges = np.arange(len(accepted) + 1) * TICK_S
        arrived = np.concatenate([[0.0], np.cumsum(accepted)])
        served = np.concatenate([[0.0], np.cumsum(self._served)])
        speed = len(self._levels) * self._setup.curve.capacity
        if speed:  # what is left at the end is served by the last instances
            edges = np.append(edges, edges[-1] + max(TICK_S, self._central / speed))
            served = np.append(served, arrived[-1])
        before = arrived[used][:, None] + accepted[used][:, None] * position
        starts = np.interp(before, served, edges, right=np.inf)
        wait: NDArray[np.float64] = np.maximum(0.0, starts - (used[:, None] + position) * TICK_S)
        wait[wait < 1e-6] = 0.0
        return wait

    def _shuffled(self, rows: int) -> NDArray[np.float64]:
        """Return a row of evenly spread numbers from 0 to 1 per tick, in random order."""
        samples = self._samples
        steps = np.broadcast_to(np.arange(samples), (rows, samples))
        return (self._random.permuted(steps, axis=1) + self._random.random((rows, samples))) / samples


def _waiting_share(load: NDArray[np.float64], servers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of requests that have to wait (Sakasegawa)."""
    share: NDArray[np.float64] = load ** (np.sqrt(2 * (servers + 1)) - 1)
    return share


def _smoothed(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each tick and its neighbors."""
    width = min(_SMOOTHED_TICKS, len(counts))
    ones = np.ones(width)
    sums = np.convolve(counts, ones, mode="same")
    weights: NDArray[np.float64] = np.convolve(np.ones(len(counts)), ones, mode="same")
    return sums / weights
