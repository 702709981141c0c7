"""Trying graphs: each is made, compared with the framework and timed, and the fastest right one is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from catalog.accepting import Accept
from catalog.manifests import CandidateReport, ParityReport
from model_build.cases import Case
from model_build.errors import ExportError, ParityError
from model_build.graphs.levels import Level
from model_build.graphs.onnx_file import folder_bytes
from model_build.graphs.records import ExportedGraph
from model_build.graphs.running import (
    THREADS_TIMED,
    Session,
    compare_graph,
    time_graphs,
    typical_requests,
)
from model_build.parity import describe_miss, judge, report_of

GAIN_WANTED = 1.05
"""A graph that is less accurate has to be faster than fp32 by more than the noise of measuring."""

CONVERTER_FAULTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    onnx.shape_inference.InferenceError,
)
"""What converters raise for a graph that they have not been tried with."""


@dataclass(frozen=True)
class Candidate:
    """A graph that was tried, and why it is out if it is."""

    level: Level
    graph: ExportedGraph | None = None
    parity: ParityReport | None = None
    fault: str | None = None
    latency_ms: Mapping[str, float] = field(default_factory=dict)


def make(level: Level, graph: ExportedGraph, cases: Sequence[Case]) -> ExportedGraph:
    """The graph of a level, in a folder beside the exported one."""
    try:
        return level.convert(graph, _folder(graph, level), cases)
    except CONVERTER_FAULTS as error:
        raise ExportError(
            f"{level.name} cannot be made of this graph: {type(error).__name__}: {error}",
            remedy="choose another precision",
        ) from error


def check(level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: Accept) -> ParityReport:
    """Compare a graph with the framework; raises ParityError with a table of what missed."""
    return judge("graph", compare_graph(Session(graph.file), cases), accept, precision=level.precision)


def attempt(level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: Accept) -> Candidate:
    """Make and compare one of several; what goes wrong is a reason against it, not the build's end."""
    try:
        made = make(level, graph, cases)
        comparisons = compare_graph(Session(made.file), cases)
    except (ExportError, ParityError) as error:
        return Candidate(level, fault=error.message)
    if not all(comparison.is_number for comparison in comparisons):
        return Candidate(level, made, fault="its answers are no numbers where the framework's are")
    parity = report_of("graph", comparisons)
    return Candidate(level, made, parity, describe_miss(comparisons, accept, level.precision))


def time_candidates(
    candidates: Sequence[Candidate], cases: Sequence[Case], *, max_batch: int
) -> list[Candidate]:
    """The same, with median milliseconds by shape where there is a graph that runs."""
    sessions = {
        candidate.level.name: Session(candidate.graph.file, threads=THREADS_TIMED)
        for candidate in candidates
        if candidate.graph
    }
    times = time_graphs(sessions, typical_requests(cases, max_batch=max_batch))
    return [replace(candidate, latency_ms=times.get(candidate.level.name, {})) for candidate in candidates]


def choose(timed: Sequence[Candidate]) -> Candidate:
    """The fastest that is right; the first, if that is not slower by more than noise."""
    base = timed[0]
    best = max(
        (candidate for candidate in timed if not candidate.fault),
        key=lambda candidate: speed_up(candidate, base),
    )
    return best if speed_up(best, base) >= GAIN_WANTED else base


def speed_up(candidate: Candidate, base: Candidate) -> float:
    """How many times as fast as another, over all shapes."""
    ratios = [base.latency_ms[shape] / candidate.latency_ms[shape] for shape in base.latency_ms]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def report(candidate: Candidate, timed: Sequence[Candidate]) -> CandidateReport:
    """What the manifest says of one of several."""
    return _report(candidate, kept=candidate is choose(timed), reason=_reason(candidate, timed))


def report_named(candidate: Candidate) -> CandidateReport:
    """What it says of the only one, which model.yaml names."""
    return _report(candidate, kept=True, reason="model.yaml names it")


def _report(candidate: Candidate, *, kept: bool, reason: str) -> CandidateReport:
    level = candidate.level
    return CandidateReport(
        name=level.name,
        precision=level.precision,
        kept=kept,
        reason=f"{reason}; {level.about}" if level.about else reason,
        parity=candidate.parity,
        latency_ms=dict(candidate.latency_ms),
        size_bytes=folder_bytes(candidate.graph.file.parent) if candidate.graph else 0,
    )


def _reason(candidate: Candidate, timed: Sequence[Candidate]) -> str:
    base, chosen = timed[0], choose(timed)
    if candidate.fault:
        return candidate.fault
    speed = f"{speed_up(candidate, base):.2f} times as fast as {base.level.name}"
    if candidate is base:
        return f"{chosen.level.name} is faster" if chosen is not base else "nothing that is right is faster"
    if candidate is chosen:
        return f"accurate enough, and {speed}"
    return f"{speed}; {chosen.level.name} is faster" if chosen is not base else f"no more than {speed}"


def _folder(graph: ExportedGraph, level: Level) -> Path:
    slug = level.name.replace(",", "").replace(" ", "-").lower()
    return graph.file.parent.with_name(f"{graph.file.parent.name}-{slug}")
