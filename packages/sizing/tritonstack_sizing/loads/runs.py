"""The result of a load test: a histogram, answers, and errors per slice of time, and where it is steady."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tritonstack.base.files import read_json
from tritonstack.base.results import Figure, Internal, Rounded, document, figure, public
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.loads.histograms import (
    Counts,
    count_latencies,
    from_pairs,
    mean_s,
    percentiles_s,
    to_pairs,
)
from tritonstack_sizing.loads.sending import Sent

PERCENTS = (50.0, 90.0, 99.0, 99.9)
FORMAT = 1
_SLICES = 40
_MOST_SLICE_S = 1.0
_LEAST_SLICE_S = 0.25
_LEAST_SLICES = 12
"""Fewer do not show whether a run is steady."""
_LATE_S = 0.005
_BUSY = 0.9


@dataclass(frozen=True)
class Slice:
    """A part of a run."""

    latencies: Counts = field(repr=False)
    """The answered requests that were due in it."""
    answered: int
    """The requests that the model answered in it, whenever they were due."""
    errors: Mapping[str, int]
    """The failed requests that were due in it, by class."""


@dataclass(frozen=True)
class GeneratorLoad:
    """The load of the machine that sends the requests."""

    processors: float
    late_p99_ms: float


@dataclass(frozen=True)
class LoadRun:
    """One level of load on one endpoint."""

    load: str
    """What was sent, such as `closed loop, 20 users`."""
    slice_s: Internal[float]
    slices: Internal[tuple[Slice, ...]] = field(repr=False)
    warm_up: Internal[int]
    """How many slices at the start were left out."""
    steady: bool
    """Whether the rest neither rises nor falls; True for traces, whose load changes on purpose."""
    processor: Internal[float]
    """Processors that the load generator used."""
    late_ms: Internal[float]
    """The 99th percentile of how late requests were sent."""

    @property
    def kept(self) -> tuple[Slice, ...]:
        """The slices after the warm-up."""
        return self.slices[self.warm_up :]

    @cached_property
    def latencies(self) -> Counts:
        """The latencies after the warm-up."""
        return np.sum([part.latencies for part in self.kept], axis=0)  # type: ignore[no-any-return]

    @public
    def seconds(self) -> float:
        """The measured time."""
        return len(self.kept) * self.slice_s

    @public
    def answered_per_s(self) -> Annotated[float, Rounded(3)]:
        """Answers of the model per second."""
        return sum(part.answered for part in self.kept) / self.seconds

    @public
    def errors(self) -> Mapping[str, int]:
        """The failed requests by class, after the warm-up."""
        return (
            Counter[str]() if not self.kept else sum((Counter(part.errors) for part in self.kept), Counter())
        )

    @public
    def failed_share(self) -> Annotated[float, Rounded(6)]:
        """The share of requests that failed."""
        failed = sum(self.errors.values())
        return failed / max(1, failed + int(self.latencies.sum()))

    @public
    def mean_ms(self) -> Figure:
        """The mean latency."""
        return mean_s(self.latencies) * 1000

    def percentiles_ms(self) -> dict[float, float]:
        """Return the percentiles for which there are enough answers: ten or more beyond each."""
        total = int(self.latencies.sum())
        percents = [
            percent for percent in PERCENTS if total * (1 - percent / 100) >= 10 or percent == PERCENTS[0]
        ]
        return dict(zip(percents, (percentiles_s(self.latencies, percents) * 1000).tolist(), strict=True))

    @property
    def generator_limited(self) -> bool:
        """Whether the load generator, not the endpoint, was the limit."""
        return self.processor >= _BUSY or self.late_ms >= _LATE_S * 1000

    @public
    def warm_up_s(self) -> float:
        """The time at the start that was left out."""
        return self.warm_up * self.slice_s

    @public
    def latency_ms(self) -> dict[str, float | None]:
        """Percentile -> milliseconds."""
        return {f"p{percent:g}": figure(ms) for percent, ms in self.percentiles_ms().items()}

    @public
    def generator(self) -> GeneratorLoad:
        """The load of the machine that sent the requests."""
        return GeneratorLoad(round(self.processor, 3), round(self.late_ms, 3))

    def to_json(self) -> dict[str, Any]:
        """Return the run for a file; `from_json` reads it."""
        slices = {
            "seconds": self.slice_s,
            "warm_up": self.warm_up,
            "answered": [part.answered for part in self.slices],
            "errors": [dict(part.errors) for part in self.slices],
            "latencies": [to_pairs(part.latencies) for part in self.slices],
        }
        return {**document(self), "slices": slices}


@dataclass(frozen=True)
class SavedRuns:
    """A load test in a file: what was asked, and a run per level."""

    environment: str
    endpoint: str
    model: str
    digest: str
    """The digest of the artifact that the lock names."""
    instance: str
    """The instance type in the environment's file."""
    began: str
    runs: tuple[LoadRun, ...]
    real_instances: bool | None = None
    """False if the local cloud answered; None in files of versions that did not record it."""
    machine: str = ""
    """The machine that ran the local cloud; empty on AWS."""

    @property
    def measured_on(self) -> str:
        """Return what answered the requests."""
        if self.real_instances is None:
            return "a machine that the file does not name"
        return self.instance if self.real_instances else f"the local cloud ({self.machine})"

    @public
    def format(self) -> int:
        """The format of the file."""
        return FORMAT

    def to_json(self) -> dict[str, Any]:
        """Return the content of a file."""
        return {**document(self), "runs": [run.to_json() for run in self.runs]}

    def text(self) -> str:
        """Return the content of a file, without what a subclass adds; `load_runs` reads it."""
        saved = SavedRuns(**{field.name: getattr(self, field.name) for field in fields(SavedRuns)})
        return json.dumps(saved.to_json())


def summarize(sent: Sent, *, load: str, seconds: float, is_trace: bool) -> LoadRun:
    """Cut what was sent into slices, and find out where the run became steady."""
    slice_s = min(_MOST_SLICE_S, max(_LEAST_SLICE_S, seconds / _SLICES))
    count = max(1, round(seconds / slice_s))
    due, ended = np.array(sent.due), np.array(sent.ended)
    is_answer = np.array([not error for error in sent.errors], dtype=bool)
    in_slice = np.minimum((due / slice_s).astype(np.int64), count - 1)
    ended_in = (ended / slice_s).astype(np.int64)
    slices = []
    for number in range(count):
        here = in_slice == number
        failed = np.flatnonzero(here & ~is_answer)
        slices.append(
            Slice(
                count_latencies((ended - due)[here & is_answer]),
                int(((ended_in == number) & is_answer).sum()),
                Counter(sent.errors[index] for index in failed),
            )
        )
    warm_up, steady = (0, True) if is_trace else find_steady([mean_s(part.latencies) for part in slices])
    late = np.array(sent.sent) - due
    return LoadRun(
        load=load,
        slice_s=slice_s,
        slices=tuple(slices),
        warm_up=warm_up,
        steady=steady,
        processor=sent.processor_s / max(seconds, float(ended.max(initial=0.0))),
        late_ms=float(np.percentile(late, 99)) * 1000 if len(late) else 0.0,
    )


def find_steady(means: Sequence[float]) -> tuple[int, bool]:
    """Return how many slices belong to the warm-up, and whether the rest is steady.

    The warm-up ends where leaving out more would not make the mean of the rest more certain (the marginal
    standard error rule, MSER). The rest is steady if its halves differ by less than 10 %, or by no more than
    their own variation explains.
    """
    values = np.array(means)
    if len(values) < _LEAST_SLICES:
        return 0, False
    medians: NDArray[np.float64] = np.where(np.isnan(values), np.nanmax(values, initial=0.0), values)
    most = len(medians) // 2
    errors = [float(medians[cut:].var() / (len(medians) - cut)) for cut in range(most + 1)]
    cut = int(np.argmin(errors))
    rest = medians[cut:]
    first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    noise = math.sqrt(first.var() / len(first) + second.var() / len(second))
    apart = abs(float(second.mean() - first.mean()))
    return cut, cut < most and apart <= max(0.1 * float(rest.mean()), 3 * noise)


def load_runs(file: Path) -> SavedRuns:
    """Read a file with the text of `SavedRuns`."""
    try:
        content = read_json(file)
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {content['format']!r}, this version reads {FORMAT}")
        texts: dict[str, Any] = {
            name: str(content[name])
            for name in ("environment", "endpoint", "model", "digest", "instance", "began")
        }
        real_instances, machine = content.get("real_instances"), str(content.get("machine", ""))
        if not (real_instances is None or isinstance(real_instances, bool)):
            raise ValueError(f"real_instances is {real_instances!r}")
        runs = tuple(map(_read_run, content["runs"]))
        return SavedRuns(**texts, runs=runs, real_instances=real_instances, machine=machine)
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _unreadable(file, f"not a saved load test ({type(error).__name__}: {error})") from error


def _read_run(content: Mapping[str, Any]) -> LoadRun:
    parts = content["slices"]
    slices = tuple(
        Slice(from_pairs(pairs), int(answered), {str(name): int(count) for name, count in errors.items()})
        for pairs, answered, errors in zip(
            parts["latencies"], parts["answered"], parts["errors"], strict=True
        )
    )
    warm_up = int(parts["warm_up"])
    if not 0 <= warm_up < len(slices):
        raise ValueError("it has no slices after the warm-up")
    return LoadRun(
        load=str(content["load"]),
        slice_s=float(parts["seconds"]),
        slices=slices,
        warm_up=warm_up,
        steady=bool(content["steady"]),
        processor=float(content["generator"]["processors"]),
        late_ms=float(content["generator"]["late_p99_ms"]),
    )


def _unreadable(file: Path, message: str) -> NoMeasurementsError:
    return NoMeasurementsError(
        f"cannot read {file}: {message}", remedy="pass a file that `tritonstack bench --save` wrote"
    )
