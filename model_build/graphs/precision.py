"""A graph for ONNX Runtime in the precision that the model's file asks for, compared with the framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from catalog.manifests import ParityReport
from catalog.models import ModelSpec
from catalog.targets import Target
from model_build.cases import Case
from model_build.errors import ExportError
from model_build.graphs.candidates import (
    Candidate,
    attempt,
    check,
    choose,
    make,
    report,
    report_named,
    time_candidates,
)
from model_build.graphs.levels import FP32, Level, level_of, rivals
from model_build.graphs.onnx_file import folder_bytes
from model_build.graphs.readable import make_readable
from model_build.graphs.records import ExportedGraph, SettledGraph
from model_build.parity import describe_parity
from model_build.progress import Steps


def settle_onnx(
    graph: ExportedGraph, *, cases: Sequence[Case], spec: ModelSpec, target: Target, steps: Steps
) -> SettledGraph:
    """The graph that is named, or the fastest that is right."""
    readable = make_readable(graph, target)
    if spec.precision == "auto":
        return _fastest(rivals(readable), readable, cases, spec, steps)
    if spec.precision == "bf16":
        raise ExportError("ONNX Runtime does not compute in bf16", remedy="write `format: tensorrt`")
    return _named(level_of(spec.precision, readable), readable, cases, spec, steps)


def _named(
    level: Level, graph: ExportedGraph, cases: Sequence[Case], spec: ModelSpec, steps: Steps
) -> SettledGraph:
    made = graph
    if level is not FP32:
        made = steps.run(f"make {level.name}", lambda: make(level, graph, cases), _describe_size)
    parity = steps.run("compare graph", lambda: check(level, made, cases, spec.accept), describe_parity)
    settled = _settled(level, made, parity)
    if level is FP32:
        return settled
    return replace(settled, candidates=(report_named(Candidate(level, made, parity)),))


def _fastest(
    levels: Sequence[Level], graph: ExportedGraph, cases: Sequence[Case], spec: ModelSpec, steps: Steps
) -> SettledGraph:
    parity = steps.run("compare graph", lambda: check(FP32, graph, cases, spec.accept), describe_parity)
    base = Candidate(FP32, graph, parity)
    tried = [base]
    for level in levels:
        attempted = partial(attempt, level, graph, cases, spec.accept)
        tried.append(steps.run(f"try {level.name}", attempted, _describe_candidate))
    timed = steps.run(
        "time graphs",
        lambda: time_candidates(tried, cases, max_batch=spec.batching.max_batch),
        _describe_times,
    )
    chosen = choose(timed)
    if chosen.graph is None or chosen.parity is None:
        raise ExportError(f"{chosen.level.name} was chosen and was not made")
    return replace(
        _settled(chosen.level, chosen.graph, chosen.parity),
        candidates=tuple(report(candidate, timed) for candidate in timed),
    )


def _settled(level: Level, graph: ExportedGraph, parity: ParityReport) -> SettledGraph:
    return SettledGraph(
        folder=graph.file.parent,
        backend="onnxruntime",
        precision=level.precision,
        inputs=graph.inputs,
        outputs=graph.outputs,
        batches=graph.batches,
        parity=parity,
    )


def _describe_size(graph: ExportedGraph) -> str:
    return f"{folder_bytes(graph.file.parent) / 1e6:.1f} MB"


def _describe_candidate(candidate: Candidate) -> str:
    if candidate.fault or candidate.parity is None:
        return f"not served: {candidate.fault}"
    return describe_parity(candidate.parity)


def _describe_times(timed: Sequence[Candidate]) -> str:
    return f"{choose(timed).level.name} is kept; " + "; ".join(
        f"{candidate.level.name} {' '.join(map(str, candidate.latency_ms.values()))} ms"
        for candidate in timed
        if candidate.latency_ms
    )
