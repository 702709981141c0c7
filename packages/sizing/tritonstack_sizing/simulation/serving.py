"""What serves requests, and what one tick and one slice of a simulation show."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.files.records.manifests import Manifest
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.histograms import BUCKETS, bucket_of, percentiles_s
from tritonstack_sizing.loads.runs import SavedRuns

_SHAPE_POINTS = 512
_SATURATED = 0.97
"""The share of the highest throughput from which more concurrency only adds waiting."""
_STILL_RISING = 1.1
_MOST_SLOTS = 1000


@dataclass(frozen=True)
class ServiceCurve:
    """The throughput of one instance by concurrency, and how service times spread.

    With k slots in use, an instance answers `rates[k - 1]` requests per second, so each takes
    k / rates[k - 1] on average (a flow-equivalent server: Chandy, Herzog, and Woo, 1975). That covers
    several Triton instances as well as dynamic batching, whichever raised the measured throughput.
    """

    source: str
    """Where the figures come from."""
    rates: tuple[float, ...]
    """Answers per second with 1, 2, ... requests in service."""
    shape: NDArray[np.float64] = field(repr=False)
    """Service times relative to their mean, at even steps of probability."""
    notes: tuple[str, ...] = ()
    """What the figures leave open."""
    instance: str | None = None
    """The instance type of a load test; None if the figures come from no instance."""

    @property
    def slots(self) -> int:
        """The most requests in service at once; others wait."""
        return len(self.rates)

    @property
    def capacity(self) -> float:
        """The highest number of answers per second."""
        return self.rates[-1]

    @cached_property
    def variation(self) -> float:
        """The squared coefficient of variation of service times."""
        return float(self.shape.var())

    def limited(self, slots: int) -> ServiceCurve:
        """Return the curve of an instance that gets at most so many requests at once."""
        return self if slots >= self.slots else replace(self, rates=self.rates[:slots])

    def busy_slots(self, rate: float) -> float:
        """Return the mean number of slots in use at so many requests per second of one instance."""
        if rate >= self.capacity:
            return float(self.slots)
        number = bisect_left(self.rates, rate)
        lower, upper = (self.rates[number - 1] if number else 0.0), self.rates[number]
        return number + (rate - lower) / (upper - lower)

    def service_s(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean service time at so many requests per second of one instance."""
        load = np.array([0.0, *self.rates])
        # np.interp needs increasing rates; on a plateau, the lowest concurrency counts.
        first = np.concatenate([[True], np.diff(load) > 0])
        busy = np.maximum(np.interp(rates, load[first], np.arange(len(load))[first]), 1.0)
        service: NDArray[np.float64] = busy / np.interp(busy, np.arange(1, self.slots + 1), self.rates)
        return service


def measured_curve(saved: SavedRuns, *, source: str) -> ServiceCurve:
    """Return the curve of a saved load test on one instance.

    Each level gives one point: its throughput, and by Little's law the mean number of requests inside.
    """
    points, notes = [], []
    for run in saved.runs:
        if not run.latencies.sum() or run.failed_share > 0.01:
            notes.append(f"{run.load}: left out, because {run.failed_share:.1%} of its requests failed")
        elif not run.steady:
            notes.append(f"{run.load}: left out, because it was not steady")
        else:
            points.append((max(1.0, run.answered_per_s * run.mean_ms / 1000), run.answered_per_s, run))
    if not points:
        raise NoMeasurementsError(
            f"{source} has no level that shows how fast an instance answers: "
            + ("; ".join(notes) or "it is empty"),
            remedy="measure one instance with `tritonstack bench --users 1,2,4,8,16 --save FILE`",
        )
    points.sort(key=lambda point: point[0])
    rates = [rate for _, rate, _ in points]
    if len(points) == 1:
        notes.append("one level only: no higher throughput is known; measure --users 1,2,4,8,16")
    elif max(rates) > _STILL_RISING * max(rates[:-1]):
        notes.append(
            "the throughput was still rising at the highest level: measure more users to find the capacity"
        )
    return ServiceCurve(
        source,
        _at_each_concurrency([(concurrency, rate) for concurrency, rate, _ in points]),
        _relative(percentiles_s(points[0][2].latencies, _percents())),
        tuple(notes),
        instance=saved.measured_on,
    )


def manifest_curve(manifest: Manifest) -> ServiceCurve:
    """Return a curve from the latencies that the build measured, batch by batch, on the build machine."""
    source = f"manifest of {manifest.model} (measured by its build)"
    if not manifest.latency:
        raise NoMeasurementsError(
            f"the {source} has no latencies",
            remedy="measure one instance with `tritonstack bench --users 1,2,4,8,16 --save FILE`, and pass "
            "--bench FILE",
        )
    reports = sorted(manifest.latency, key=lambda report: report.batch)
    parallel = manifest.instances
    points = [(1.0, 1000 / reports[0].p50_ms)]
    points += [
        (float(parallel * report.batch), parallel * report.batch * 1000 / report.p50_ms) for report in reports
    ]
    spread = math.log(max(1.0, reports[0].p99_ms / reports[0].p50_ms)) / NormalDist().inv_cdf(0.99)
    shape = [math.exp(spread * NormalDist().inv_cdf(percent / 100)) for percent in _percents()]
    return ServiceCurve(
        source,
        _at_each_concurrency(points),
        _relative(np.array(shape)),
        ("these latencies are those of the build machine, not the instance type; use `tritonstack bench`",),
    )


def _percents() -> Sequence[float]:
    return [100 * (number + 0.5) / _SHAPE_POINTS for number in range(_SHAPE_POINTS)]


def _relative(values: NDArray[np.float64]) -> NDArray[np.float64]:
    relative: NDArray[np.float64] = values / values.mean()
    return relative


def _at_each_concurrency(points: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Interpolate up to the lowest concurrency that reaches nearly the highest throughput."""
    ordered = sorted(points)
    concurrency = np.array([point[0] for point in ordered])
    rates = np.maximum.accumulate(np.array([point[1] for point in ordered]))
    enough = int(np.argmax(rates >= _SATURATED * rates[-1]))
    slots = min(_MOST_SLOTS, max(1, round(concurrency[enough])))
    answers = np.interp(np.arange(1, slots + 1), concurrency, rates)
    answers[-1] = rates[enough]
    return tuple(float(rate) for rate in np.maximum.accumulate(answers))


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
