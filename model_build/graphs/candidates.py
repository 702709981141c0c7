"""Candidate graphs of `precision: auto`: convert, compare with the framework, time, and choose.

The choice must be reproducible. Candidates come in a fixed order, most accurate first; a later one is chosen
only if it is at least LEAST_GAIN times as fast. Times are the minimum processor times of interleaved runs
(see running.py), so other programs hardly affect them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from model_build.checking.parity import describe_miss, judge, report_of
from model_build.data.cases import Case, batches
from model_build.data.graphs import ExportedGraph
from model_build.errors import ExportError, ParityError
from model_build.graphs.levels import Level
from model_build.graphs.running import (
    THREADS_TIMED,
    compare_graph,
    time_graphs,
    typical_requests,
)
from tritonstack.base.files import folder_bytes
from tritonstack.files.model.tolerance import ModelTolerance
from tritonstack.files.records.manifests import CandidateReport, ParityReport

LEAST_GAIN = 1.3
"""Speed-up required to prefer a later candidate. Far above the measurement error, and far below int8's
typical gain (2.2 to 3.3 with VNNI)."""
NAMED = "model.yaml names it"

CONVERTER_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    onnx.shape_inference.InferenceError,
)
"""Exceptions that converters raise for unsupported graphs."""


@dataclass(frozen=True)
class Candidate:
    """A tried graph, with the reason if it was rejected."""

    level: Level
    graph: ExportedGraph | None = None
    parity: ParityReport | None = None
    violation: str | None = None
    latency_ms: Mapping[str, float] = field(default_factory=dict)


def make(level: Level, graph: ExportedGraph, cases: Sequence[Case]) -> ExportedGraph:
    """Convert the graph to a level, in a folder next to the exported one."""
    try:
        return level.convert(graph, _folder(graph, level), cases)
    except CONVERTER_ERRORS as error:
        raise ExportError(
            f"the graph cannot be converted to {level.name}: {type(error).__name__}: {error}",
            remedy="choose another precision",
        ) from error


def check(level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: ModelTolerance) -> ParityReport:
    """Compare a graph with the framework; raise ParityError with a table of all misses."""
    return judge("graph", compare_graph(level.session(graph), cases), accept, precision=level.precision)


def attempt(
    level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: ModelTolerance, *, max_batch: int
) -> Candidate:
    """Convert and compare one candidate; a failure rejects it and does not end the build.

    Cases run alone and batched: integer answers depend on the other rows of a batch.
    """
    try:
        converted = make(level, graph, cases)
        comparisons = compare_graph(level.session(converted), [*cases, *batches(cases, max_batch)])
    except (ExportError, ParityError) as error:
        return Candidate(level, violation=error.message)
    if not all(comparison.is_number for comparison in comparisons):
        return Candidate(level, converted, violation="its answers are NaN where the framework's are not")
    parity = report_of("graph", comparisons)
    return Candidate(level, converted, parity, describe_miss(comparisons, accept, "auto"))


def time_candidates(
    candidates: Sequence[Candidate], cases: Sequence[Case], *, max_batch: int, seconds: float
) -> list[Candidate]:
    """Add processor milliseconds per shape to each candidate that has a graph, in about `seconds`."""
    sessions = {
        candidate.level.name: candidate.level.session(candidate.graph, threads=THREADS_TIMED)
        for candidate in candidates
        if candidate.graph
    }
    times = time_graphs(sessions, typical_requests(cases, max_batch=max_batch), seconds=seconds)
    return [replace(candidate, latency_ms=times.get(candidate.level.name, {})) for candidate in candidates]


def choose(timed: Sequence[Candidate]) -> Candidate:
    """Return the first accurate candidate that no later one beats by LEAST_GAIN."""
    chosen = timed[0]
    for candidate in timed[1:]:
        if not candidate.violation and speed_up(candidate, chosen) >= LEAST_GAIN:
            chosen = candidate
    return chosen


def speed_up(candidate: Candidate, base: Candidate) -> float:
    """Return the speed-up over `base`, averaged over all shapes."""
    ratios = [base.latency_ms[shape] / candidate.latency_ms[shape] for shape in base.latency_ms]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def report(candidate: Candidate, timed: Sequence[Candidate]) -> CandidateReport:
    """Return the manifest entry of one candidate."""
    return report_because(_reason(candidate, timed), candidate, is_chosen=candidate is choose(timed))


def report_because(reason: str, candidate: Candidate, *, is_chosen: bool = True) -> CandidateReport:
    """Return the manifest entry of one candidate, by default of the only graph."""
    level = candidate.level
    return CandidateReport(
        name=level.name,
        precision=level.precision,
        kept=is_chosen,
        reason=f"{reason}; {level.about}" if level.about else reason,
        parity=candidate.parity,
        latency_ms=dict(candidate.latency_ms),
        size_bytes=folder_bytes(candidate.graph.file.parent) if candidate.graph else 0,
    )


def _reason(candidate: Candidate, timed: Sequence[Candidate]) -> str:
    base, chosen = timed[0], choose(timed)
    if candidate.violation:
        return candidate.violation
    speed = f"{speed_up(candidate, base):.2f} times as fast as {base.level.name}"
    if candidate is base:
        better = f"{chosen.level.name} is faster"
        return better if chosen is not base else f"no accurate graph is at least {LEAST_GAIN} times as fast"
    if candidate is chosen:
        return f"accurate enough, and {speed}"
    if speed_up(candidate, chosen) < 1:
        return f"{speed}; {chosen.level.name} is faster"
    return f"{speed}; less than {LEAST_GAIN} times as fast as {chosen.level.name}, which is preferred"


def _folder(graph: ExportedGraph, level: Level) -> Path:
    slug = level.name.replace(",", "").replace(" ", "-").lower()
    return graph.file.parent.with_name(f"{graph.file.parent.name}-{slug}")
