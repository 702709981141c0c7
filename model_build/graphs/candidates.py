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
EXACT = 1e-5
"""Answers nearer than this, as a share of the largest value, were not computed in bf16."""


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
    missing = level.missing()
    if missing:
        raise ExportError(missing, remedy="choose another precision, or build where there is")
    try:
        return level.convert(graph, _folder(graph, level), cases)
    except CONVERTER_FAULTS as error:
        raise ExportError(
            f"{level.name} cannot be made of this graph: {type(error).__name__}: {error}",
            remedy="choose another precision",
        ) from error


def check(level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: Accept) -> ParityReport:
    """Compare a graph with the framework; raises ParityError with a table of what missed."""
    session = Session(graph.file, providers=level.providers)
    report = judge("graph", compare_graph(session, cases), accept, precision=level.precision)
    fault = _not_really(level, report)
    if fault:
        raise ExportError(fault, remedy="choose another precision")
    return report


def attempt(level: Level, graph: ExportedGraph, cases: Sequence[Case], accept: Accept) -> Candidate:
    """Make and compare one of several; what goes wrong is a reason against it, not the build's end."""
    try:
        made = make(level, graph, cases)
        comparisons = compare_graph(Session(made.file, providers=level.providers), cases)
    except (ExportError, ParityError) as error:
        return Candidate(level, fault=error.message)
    parity = report_of("graph", comparisons)
    fault = describe_miss(comparisons, accept, level.precision) or _not_really(level, parity)
    return Candidate(level, made, parity, fault)


def time_candidates(
    candidates: Sequence[Candidate], cases: Sequence[Case], *, max_batch: int
) -> list[Candidate]:
    """The same, with median milliseconds by shape where there is a graph that runs."""
    sessions = {
        candidate.level.name: Session(
            candidate.graph.file, providers=candidate.level.providers, threads=THREADS_TIMED
        )
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
    return CandidateReport(
        name=candidate.level.name,
        precision=candidate.level.precision,
        kept=candidate is choose(timed),
        reason=_reason(candidate, timed),
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


def _not_really(level: Level, report: ParityReport) -> str | None:
    """OpenVINO computes in fp32 where it is not told otherwise, and then nothing else gives it away."""
    if level.precision != "bf16" or (report.max_relative_error or 0.0) > EXACT:
        return None
    return "OpenVINO computed in fp32: Triton's onnxruntime backend does not ask it for bf16"
