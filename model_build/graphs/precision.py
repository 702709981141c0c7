"""Convert a graph for CPUs to the precision in model.yaml, and compare it with the framework."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import onnx

from model_build.checking.parity import describe_miss, describe_parity, judge, report_of
from model_build.data import Case, ExportedGraph, ServableGraph, batches
from model_build.errors import ExportError, ParityError
from model_build.graphs.levels import BF16, FP32, Level, as_it_is, candidate_levels, level_of
from model_build.graphs.onnx_files import make_readable
from model_build.graphs.openvino_session import computes_bf16
from model_build.graphs.running import (
    THREADS_TIMED,
    compare_graph,
    time_graphs,
    typical_requests,
)
from model_build.progress import BuildSteps
from tritonstack.base.error_kinds import UnavailableOptionError
from tritonstack.base.files import folder_bytes
from tritonstack.facts.targets import Target
from tritonstack.files.model.backend_rules import openvino_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.tolerance import ModelTolerance
from tritonstack.files.records.manifests import RECORDED, CandidateReport, ParityReport

# Candidate graphs of `precision: auto`: convert, compare with the framework, time, and choose. The choice
# must be reproducible. Candidates come in a fixed order, most accurate first; a later one is chosen only if
# it is at least LEAST_GAIN times as fast. Times are the minimum processor times of interleaved runs (see
# running.py), so other programs hardly affect them.

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
        slug = level.name.replace(",", "").replace(" ", "-").lower()
        return level.convert(graph, graph.beside(slug), cases)
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


AUTO_BUDGET_S = 300.0
"""Time for converting, comparing, and timing the candidates of `precision: auto`."""


def choose_precision(
    graph: ExportedGraph,
    *,
    cases: Sequence[Case],
    spec: ModelSpec,
    target: Target,
    steps: BuildSteps,
    recorded: str | None = None,
) -> ServableGraph:
    """Convert to the precision in model.yaml, or choose one if it is `auto`.

    `recorded` names the graph that an earlier build of the same files chose; it is reused.
    """
    readable = make_readable(graph, target)
    if spec.precision == "auto":
        return _chosen(_Auto(readable, cases, spec, steps), recorded)
    if spec.precision == "bf16":
        _require_bf16(readable, spec, target)
    return _named(level_of(spec.precision, readable), readable, cases, spec, steps)


def _require_bf16(graph: ExportedGraph, spec: ModelSpec, target: Target) -> None:
    """Raise ExportError if OpenVINO cannot serve the graph; model.yaml has been checked before."""
    reasons = ["OpenVINO runs on CPUs only"] if target.has_gpu else []
    for reason in (*reasons, *_unlike_batches(graph, spec)):
        raise ExportError(
            f"bf16 is not available: {reason}",
            remedy="choose another precision",
            code=UnavailableOptionError.code,
        )


def _unlike_batches(graph: ExportedGraph, spec: ModelSpec) -> Iterator[str]:
    """Yield why callers would notice that Triton's openvino backend has no batch dimension."""
    narrowed = {name for name, tensor in spec.tensors.items() if tensor.labels}
    labeled = [output.name for output in graph.outputs if output.labels or output.name in narrowed]
    if labeled and graph.batches and spec.layout != "ensemble":
        yield (
            f"{labeled[0]} has labels, which Triton assigns per row only in models with a batch dimension; "
            "its openvino backend needs a model without one"
        )


def _named(
    level: Level, graph: ExportedGraph, cases: Sequence[Case], spec: ModelSpec, steps: BuildSteps
) -> ServableGraph:
    converted = graph
    if level.convert is not as_it_is:
        converted = steps.run(f"make {level.name}", lambda: make(level, graph, cases), lambda made: made.size)
    parity = steps.run("compare graph", lambda: check(level, converted, cases, spec.accept), describe_parity)
    servable = _servable(level, converted, parity)
    if level is FP32:
        return servable
    return replace(servable, candidates=(report_because(NAMED, Candidate(level, converted, parity)),))


@dataclass(frozen=True)
class _Auto:
    """The candidates of `precision: auto`."""

    graph: ExportedGraph
    cases: Sequence[Case]
    spec: ModelSpec
    steps: BuildSteps
    begun: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float:
        """Return the rest of the budget."""
        return self.begun + AUTO_BUDGET_S - time.monotonic()

    def base(self) -> Candidate:
        """Return the exported graph, which must always be accurate."""
        parity = self.steps.run(
            "compare graph", lambda: check(FP32, self.graph, self.cases, self.spec.accept), describe_parity
        )
        return Candidate(FP32, self.graph, parity)

    def attempt(self, level: Level, *, recorded: bool = False) -> Candidate:
        """Convert one candidate, unless it cannot win, or the budget is spent."""
        if self.seconds_left() <= 0:
            return Candidate(level, violation=f"not tried: the budget of {AUTO_BUDGET_S:.0f} s is spent")
        if level is BF16:
            obstacles = (violation.message for violation in openvino_violations(self.spec))
            for reason in (*obstacles, *_unlike_batches(self.graph, self.spec)):
                return Candidate(level, violation=f"not tried: {reason}")
            if not recorded and not computes_bf16():
                return Candidate(level, violation="not tried: OpenVINO computes in fp32 on this processor")
        max_batch = self.spec.batching.max_batch
        attempted = partial(attempt, level, self.graph, self.cases, self.spec.accept, max_batch=max_batch)
        return self.steps.run(f"try {level.name}", attempted, _describe_candidate)

    def timed(self, tried: Sequence[Candidate]) -> list[Candidate]:
        """Time the candidates."""
        return self.steps.run(
            "time graphs",
            lambda: time_candidates(
                tried,
                self.cases,
                max_batch=self.spec.batching.max_batch,
                seconds=self.seconds_left(),
            ),
            lambda timed: (
                f"{_describe_times(timed)}; {self.seconds_left():.0f} of {AUTO_BUDGET_S:.0f} s left"
            ),
        )


def _chosen(auto: _Auto, recorded: str | None) -> ServableGraph:
    base, levels = auto.base(), candidate_levels(auto.graph)
    if recorded == FP32.name:
        return _kept(base, [report_because(RECORDED, base)])
    # Try the recorded choice first; if it is not accurate enough here, choose again.
    tried = {level.name: auto.attempt(level, recorded=True) for level in levels if level.name == recorded}
    for candidate in tried.values():
        if not candidate.violation:
            return _kept(candidate, [report_because(RECORDED, candidate)])
    others = {level.name: tried.get(level.name) or auto.attempt(level) for level in levels}
    timed = auto.timed([base, *others.values()])
    return _kept(choose(timed), [report(candidate, timed) for candidate in timed])


def _kept(chosen: Candidate, reports: Sequence[CandidateReport]) -> ServableGraph:
    if chosen.graph is None or chosen.parity is None:
        raise ExportError(
            f"{chosen.level.name} was chosen but not built",
            remedy="name the precision in model.yaml instead of `auto`",
        )
    servable = _servable(chosen.level, chosen.graph, chosen.parity)
    return replace(servable, candidates=tuple(reports))


def _servable(level: Level, graph: ExportedGraph, parity: ParityReport) -> ServableGraph:
    return ServableGraph(
        folder=graph.file.parent,
        backend=level.backend,
        parameters=level.parameters,
        precision=level.precision,
        inputs=graph.inputs,
        outputs=graph.outputs,
        batches=graph.batches,
        parity=parity,
    )


def _describe_candidate(candidate: Candidate) -> str:
    if candidate.violation or candidate.parity is None:
        return f"rejected: {candidate.violation}"
    return describe_parity(candidate.parity)


def _describe_times(timed: Sequence[Candidate]) -> str:
    return f"chose {choose(timed).level.name}; " + "; ".join(
        f"{candidate.level.name} {' '.join(map(str, candidate.latency_ms.values()))} ms"
        for candidate in timed
        if candidate.latency_ms
    )
