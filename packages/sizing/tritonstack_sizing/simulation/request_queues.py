"""Simulate each request: instances with slots and queues, a router, and models that have to be loaded."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.simulation.serving import (
    TICK_S,
    ModelCache,
    ServingSetup,
    SliceLatencies,
    TickLoad,
    as_array,
    sort_into_slices,
)

_DRAWS = 4096
_EVENT_LIMIT = float("inf")


@dataclass(eq=False, slots=True)
class _Queued:
    """One instance: requests in service, waiting, and those that wait for a model to load."""

    busy: int = 0
    waiting: deque[float] = field(default_factory=deque)
    outstanding: int = 0
    removed: bool = False
    ready_at: OrderedDict[int, float] = field(default_factory=OrderedDict)
    """Loaded models, the least recently used first, and when each is ready."""


class RequestQueues:
    """The instances of a variant, request by request."""

    def __init__(self, setup: ServingSetup, arrivals: NDArray[np.float64], *, seed: int) -> None:
        self._setup = setup
        self._arrivals = arrivals
        self._random = np.random.default_rng(seed)
        self._models = (
            None
            if setup.cache is None
            else self._random.choice(len(setup.cache.shares), len(arrivals), p=setup.cache.shares)
        )
        curve = setup.curve
        self._slots = curve.slots
        self._mean_s = [0.0, *(number / rate for number, rate in enumerate(curve.rates, 1))]
        self._factors: list[float] = []
        self._picks: list[float] = []
        self._instances: list[_Queued] = []
        self._events: list[tuple[float, int, _Queued, float, bool]] = []
        """Time, number, instance, arrival, and whether a request now enters the queue (or is answered)."""
        self._events_pushed = 0
        self._central: deque[float] = deque()
        """The queue of an asynchronous endpoint."""
        self._end = 0.0
        """The end of the last tick."""
        self._work_s = 0.0
        self._inside = self._peak = 0
        """Requests in the instances now, and the most in this tick."""
        self._served: tuple[list[float], list[float]] = ([], [])
        """Arrivals and latencies."""
        self._refused: list[float] = []
        """Arrivals of requests that found no instance, or no place in its queue."""

    def resize(self, count: int) -> None:
        """Serve with so many instances; those that are removed finish what they have."""
        while len(self._instances) < count:
            self._instances.append(_Queued())
        while len(self._instances) > count:
            self._instances.pop().removed = True

    def run(self, tick: int) -> TickLoad:
        """Serve the requests that arrive in a tick."""
        begin, end = tick * TICK_S, (tick + 1) * TICK_S
        first, last = np.searchsorted(self._arrivals, (begin, end))
        refused, self._work_s = len(self._refused), 0.0
        self._pull(begin)
        self._inside = self._peak = sum(instance.outstanding for instance in self._instances)
        for number, arrived in enumerate(self._arrivals[first:last].tolist(), start=int(first)):
            self._advance(arrived)
            self._arrive(arrived, 0 if self._models is None else int(self._models[number]))
        self._advance(end)
        self._end = end
        instances = self._instances
        return TickLoad(
            begin=begin,
            requests=int(last - first),
            instances=len(instances),
            unserved=len(self._refused) - refused,
            concurrency=math.ceil(self._peak / max(1, len(instances))),
            busy=min(1.0, self._work_s / (TICK_S * self._slots * max(1, len(instances)))),
            backlog=len(self._central) + sum(instance.outstanding for instance in instances),
        )

    def latencies(self, slices: int, slice_s: float) -> SliceLatencies:
        """Serve what is left, and return all latencies."""
        self._advance(_EVENT_LIMIT)
        arrived, latencies = map(as_array, self._served)
        by_slice = sort_into_slices(
            arrived,
            latencies,
            np.ones(len(arrived)),
            shape=(slices, slice_s),
            timeout_s=self._setup.timeout_s,
        )
        expired = [arrival for arrival in self._central if self._end - arrival > self._setup.timeout_s]
        lost = as_array([*self._refused, *expired])
        number = np.minimum((lost / slice_s).astype(np.int64), slices - 1)
        return SliceLatencies(
            by_slice.counts,
            by_slice.lost + np.bincount(number, minlength=slices),
            waiting=len(self._central) - len(expired),
        )

    def _arrive(self, arrived: float, model: int) -> None:
        setup = self._setup
        if setup.queued:
            self._central.append(arrived)
            self._pull(arrived)
            return
        if not self._instances:
            self._refused.append(arrived)
            return
        instance = self._route(model)
        if setup.queue_limit and instance.outstanding >= self._slots + setup.queue_limit:
            self._refused.append(arrived)
            return
        instance.outstanding += 1
        self._inside += 1
        self._peak = max(self._peak, self._inside)
        if setup.cache is not None:
            ready = _load(instance.ready_at, model, arrived, setup.cache)
            if ready > arrived:
                self._push(ready, instance, arrived, enters=True)
                return
        self._submit(instance, arrived, arrived)

    def _route(self, model: int) -> _Queued:
        instances = self._instances
        if self._setup.cache is not None:
            # SageMaker sends requests to instances that have the model, if there are any.
            instances = [instance for instance in instances if model in instance.ready_at] or instances
        if len(instances) == 1:
            return instances[0]
        fewest = min([instance.outstanding for instance in instances])
        idle = [instance for instance in instances if instance.outstanding == fewest]
        if len(idle) == 1:
            return idle[0]
        if not self._picks:
            self._picks = self._random.random(_DRAWS).tolist()
        return idle[int(self._picks.pop() * len(idle))]

    def _submit(self, instance: _Queued, arrived: float, now: float) -> None:
        if instance.busy < self._slots:
            self._start(instance, arrived, now)
        else:
            instance.waiting.append(arrived)

    def _start(self, instance: _Queued, arrived: float, now: float) -> None:
        instance.busy += 1
        if not self._factors:
            shape = self._setup.curve.shape
            self._factors = shape[(self._random.random(_DRAWS) * len(shape)).astype(np.int64)].tolist()
        takes = self._mean_s[instance.busy] * self._factors.pop()
        self._work_s += takes
        self._served[0].append(arrived)
        self._served[1].append(now + takes - arrived)
        self._push(now + takes, instance, arrived, enters=False)

    def _push(self, when: float, instance: _Queued, arrived: float, *, enters: bool) -> None:
        self._events_pushed += 1
        heapq.heappush(self._events, (when, self._events_pushed, instance, arrived, enters))

    def _advance(self, until: float) -> None:
        events = self._events
        while events and events[0][0] <= until:
            when, _, instance, arrived, enters = heapq.heappop(events)
            if enters:
                self._submit(instance, arrived, when)
                continue
            instance.busy -= 1
            instance.outstanding -= 1
            self._inside -= not instance.removed
            if instance.waiting:
                self._start(instance, instance.waiting.popleft(), when)
            elif self._central and not instance.removed:
                instance.outstanding += 1
                self._start(instance, self._central.popleft(), when)

    def _pull(self, now: float) -> None:
        """Give requests of the central queue to instances with free slots."""
        for instance in self._instances if self._central else ():
            while self._central and instance.busy < self._slots:
                instance.outstanding += 1
                self._start(instance, self._central.popleft(), now)


def _load(loaded: OrderedDict[int, float], model: int, now: float, cache: ModelCache) -> float:
    """Return when a model is ready on an instance; load it, and unload others, if necessary."""
    if model in loaded:
        loaded.move_to_end(model)
        return loaded[model]
    size = cache.sizes[model]
    while loaded and sum(cache.sizes[model_number] for model_number in loaded) + size > cache.memory_bytes:
        loaded.popitem(last=False)
    loaded[model] = now + cache.load_s[model]
    return loaded[model]
