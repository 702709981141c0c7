"""What serves requests, and what one tick and one slice of a simulation show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.loads.histograms import BUCKETS, bucket_of
from tritonstack_sizing.simulation.service_curves import ServiceCurve

TICK_S = 10.0
"""The step of scaling decisions: the period of SageMaker's high-resolution metrics."""


@dataclass(frozen=True)
class ModelCache:
    """The models of a multi-model endpoint, which instances load when they are asked for."""

    sizes: tuple[int, ...]
    """Memory per model."""
    load_s: tuple[float, ...]
    """Time to download and load each model."""
    shares: tuple[float, ...]
    """Share of the requests per model; the sum is 1."""
    memory_bytes: float
    """Memory of an instance for models."""


@dataclass(frozen=True)
class ServingSetup:
    """How each instance serves, and how requests reach it."""

    curve: ServiceCurve
    timeout_s: float
    """Requests that take longer are lost."""
    queued: bool = False
    """Whether requests wait in one queue for all instances, as on asynchronous endpoints."""
    queue_limit: int = 0
    """The most requests that wait on an instance; 0 means no limit."""
    cache: ModelCache | None = None
    counts_answers: bool = False
    """Whether a request counts as an invocation when it is answered, instead of when it arrives."""


@dataclass(frozen=True)
class TickLoad:
    """What happened in one tick; scaling sees nothing else."""

    begin: float
    requests: float
    """Requests that count as invocations."""
    instances: int
    """Instances in service."""
    unserved: int
    """Requests for which there was no instance, or no place in its queue."""
    concurrency: float
    """The most requests at once, per instance."""
    busy: float
    """Used share of the slots."""
    backlog: float
    """Requests of an asynchronous endpoint that are not answered."""


@dataclass(frozen=True)
class SliceLatencies:
    """Latencies and lost requests by the slice in which the requests arrived."""

    counts: NDArray[np.number[Any]]
    """One histogram per slice."""
    lost: NDArray[np.number[Any]]
    waiting: float = 0.0
    """Requests in a queue that no instance serves at the end, and whose time to live has not passed."""


class Serving(Protocol):
    """Instances that serve requests, tick by tick."""

    def resize(self, count: int) -> None:
        """Serve with so many instances from now on."""

    def run(self, tick: int) -> TickLoad:
        """Serve the requests that arrive in a tick."""

    def latencies(self, slices: int, slice_s: float) -> SliceLatencies:
        """Serve what is left, and return all latencies."""


def sort_into_slices(
    arrived: NDArray[np.float64],
    latencies: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    shape: tuple[int, float],
    timeout_s: float,
) -> SliceLatencies:
    """Count latencies by the slice of their arrival; longer ones than the timeout are lost."""
    slices, slice_s = shape
    number = np.minimum((arrived / slice_s).astype(np.int64), slices - 1)
    answered = latencies <= timeout_s
    cells = number[answered] * BUCKETS + bucket_of(latencies[answered])
    counts = np.bincount(cells, weights=weights[answered], minlength=slices * BUCKETS)
    lost = np.bincount(number[~answered], weights=weights[~answered], minlength=slices)
    return SliceLatencies(counts.reshape(slices, BUCKETS), lost)


def as_array(values: Sequence[float]) -> NDArray[np.float64]:
    """Return numbers as an array."""
    return np.fromiter(values, dtype=np.float64, count=len(values))
