"""How far answers are from the framework's, and whether that is near enough."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catalog.accepting import Accept, Answers, Precision, Tolerance
from catalog.manifests import ParityReport
from model_build.errors import ParityError

Array = NDArray[Any]
Stage = Literal["graph", "served"]
WHAT = {"graph": "the exported graph", "served": "the served artifact"}
ROWS_SHOWN = 12
MISS = "!"
LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Comparison:
    """One output of one request against the framework's. What is not a number is never near enough."""

    case: str
    output: str
    cosine: float
    """The lowest cosine similarity of any row."""
    absolute: float
    """The largest difference of any value."""
    relative: float
    """The same as a share of the largest value of its row."""
    top1: float
    """The share of rows, of the last dimension, whose largest value stands in the same place; of texts, the
    share of those that are the same."""
    answers: Answers = "vectors"
    note: str = ""
    """What the numbers do not tell."""

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether this is near enough."""
        return self.is_number and all(measure.is_within(self, tolerance) for measure in MEASURES)

    @property
    def is_number(self) -> bool:
        """Whether the answer has numbers wherever the framework's has."""
        return math.isfinite(self.absolute)


@dataclass(frozen=True)
class _Measure:
    """One way of telling how far answers are apart."""

    field: Literal["cosine", "absolute", "relative", "top1"]
    title: str
    form: str
    grows: bool
    """Whether more is worse."""

    def is_within(self, comparison: Comparison, tolerance: Tolerance) -> bool:
        value, bound = self.value(comparison), self.bound(tolerance)
        return bound is None or (value <= bound if self.grows else value >= bound)

    def value(self, comparison: Comparison) -> float:
        return float(getattr(comparison, self.field))

    def bound(self, tolerance: Tolerance) -> float | None:
        bound: float | None = getattr(tolerance, self.field)
        return bound

    def excess(self, comparison: Comparison, tolerance: Tolerance) -> float:
        """How many times the error that is accepted."""
        value, bound = self.value(comparison), self.bound(tolerance)
        if bound is None:
            return 0.0
        wrong, accepted = (value, bound) if self.grows else (1 - value, 1 - bound)
        return math.inf if math.isnan(wrong) else wrong / max(accepted, _TINY)


_TINY = 1e-12
MEASURES = (
    _Measure("cosine", "cosine", ".7f", grows=False),
    _Measure("absolute", "absolute", ".2e", grows=True),
    _Measure("relative", "relative", ".2e", grows=True),
    _Measure("top1", "top-1", ".3f", grows=False),
)


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row, in double precision; texts have to be the same.

    Infinities, which mask places, have to stand where the framework has them, and are otherwise left out.
    """
    if actual.shape != expected.shape:
        raise ParityError(
            f"{case}: {output} has the shape {list(actual.shape)}, the framework's {list(expected.shape)}"
        )
    if actual.size == 0:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    if np.object_ in (actual.dtype, expected.dtype):
        return _compare_texts(case, output, actual, expected)
    ours, theirs = _rows(actual), _rows(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.where(ours == theirs, 0.0, np.abs(ours - theirs)).max(axis=1)
    masked = np.isinf(theirs) & (ours == theirs)
    ours, theirs = np.where(masked, 0.0, ours), np.where(masked, 0.0, theirs)
    largest = np.abs(theirs).max(axis=1)
    with np.errstate(invalid="ignore"):
        relative = np.divide(differences, largest, out=np.array(differences), where=largest > 0)
    top1 = (_last_axis(actual).argmax(axis=1) == _last_axis(expected).argmax(axis=1)).mean()
    return Comparison(
        case,
        output,
        float(_cosines(ours, theirs).min()),
        float(differences.max()),
        float(relative.max()),
        float(top1),
        answers="whole" if expected.dtype.kind in "biu" else "numbers" if ours.shape[1] == 1 else "vectors",
        note=_what_is_no_number(actual, expected),
    )


def judge(
    stage: Stage, comparisons: Sequence[Comparison], accept: Accept, *, precision: Precision = "fp32"
) -> ParityReport:
    """The report of a stage, or ParityError with a table of what missed by how much."""
    missed = _misses(comparisons, accept, precision)
    if missed:
        raise ParityError(
            f"{WHAT[stage]} answers otherwise than the framework: {len(missed)} of {len(comparisons)} "
            f"outputs miss what is accepted, as marked by {MISS}\n{_table(missed, accept, precision)}",
            remedy="if this precision cannot do better, widen `accept` in model.yaml; else report the model",
        )
    return report_of(stage, comparisons)


def describe_miss(comparisons: Sequence[Comparison], accept: Accept, precision: Precision) -> str | None:
    """The worst miss of all in a few words; None if there is none."""
    missed = _misses(comparisons, accept, precision)
    if not missed:
        return None
    worst = missed[0]
    tolerance = _tolerance(worst, accept, precision)
    measure = max(MEASURES, key=lambda measure: measure.excess(worst, tolerance))
    return (
        f"too far from the framework: {len(missed)} of {len(comparisons)} outputs, {worst.output} of "
        f"{worst.case!r} with {measure.title} {measure.value(worst):{measure.form}}, accepted is "
        f"{_bound(measure, tolerance)}"
    )


def report_of(stage: Stage, comparisons: Sequence[Comparison]) -> ParityReport:
    """The worst of every measure, near enough or not."""
    return ParityReport(
        stage=stage,
        cases=len(comparisons),
        min_cosine=min(item.cosine for item in comparisons),
        max_absolute_error=max(item.absolute for item in comparisons),
        max_relative_error=max(item.relative for item in comparisons),
        min_top1_agreement=min(item.top1 for item in comparisons),
    )


def describe_parity(report: ParityReport) -> str:
    """A report in a few words."""
    return (
        f"{report.cases} cases, cosine >= {report.min_cosine:.7f}, error <= {report.max_absolute_error:.1e}"
    )


def _rows(array: Array) -> Array:
    return array.astype(np.float64).reshape(len(array) if array.ndim else 1, -1)


def _compare_texts(case: str, output: str, actual: Array, expected: Array) -> Comparison:
    pairs = [
        (_as_bytes(ours), _as_bytes(theirs)) for ours, theirs in zip(actual.flat, expected.flat, strict=True)
    ]
    wrong = [pair for pair in pairs if pair[0] != pair[1]]
    if not wrong:
        return Comparison(case, output, 1.0, 0.0, 0.0, 1.0)
    ours, theirs = (text.decode(errors="replace")[:LONGEST_SHOWN] for text in wrong[0])
    same = 1 - len(wrong) / len(pairs)
    note = f"{ours!r} for {theirs!r}"
    return Comparison(case, output, -1.0, float(len(wrong)), 1.0, same, note=note)


def _what_is_no_number(actual: Array, expected: Array) -> str:
    if np.isnan(expected).any():
        return "the framework's answer is no number"
    both = np.isfinite(actual) | (actual == expected)
    return "" if both.all() else "the answer is no number where the framework's is"


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _cosines(ours: Array, theirs: Array) -> Array:
    """Zeros have no direction: they are like zeros alone."""
    equal = (ours == theirs).all(axis=1)
    with np.errstate(invalid="ignore"):
        lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        products = (ours * theirs).sum(axis=1)
        return np.where(equal, 1.0, np.divide(products, lengths, out=lengths, where=lengths != 0))


def _last_axis(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)


def _misses(comparisons: Iterable[Comparison], accept: Accept, precision: Precision) -> list[Comparison]:
    """Those that are not near enough, the worst first."""

    def excess(item: Comparison) -> float:
        tolerance = _tolerance(item, accept, precision)
        return max(measure.excess(item, tolerance) for measure in MEASURES)

    missed = [item for item in comparisons if not item.is_within(_tolerance(item, accept, precision))]
    return sorted(missed, key=excess, reverse=True)


def _tolerance(item: Comparison, accept: Accept, precision: Precision) -> Tolerance:
    return accept.tolerance(item.output, precision, item.answers)


def _table(missed: Sequence[Comparison], accept: Accept, precision: Precision) -> str:
    """What missed, the worst first, in the measures that something is asked of."""
    tolerances = {
        item.output: _tolerance(item, accept, precision)
        for item in sorted(missed, key=lambda item: item.output)
    }
    asked = [
        measure
        for measure in MEASURES
        if any(measure.bound(tolerance) is not None for tolerance in tolerances.values())
    ]
    rows = [["case", "output", *(measure.title for measure in asked), ""]]
    rows += [
        [
            item.case,
            item.output,
            *(_cell(measure, item, tolerances[item.output]) for measure in asked),
            item.note,
        ]
        for item in missed[:ROWS_SHOWN]
    ]
    rows += [
        ["accepted", output, *(_bound(measure, tolerance) for measure in asked), ""]
        for output, tolerance in tolerances.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cell(measure: _Measure, item: Comparison, tolerance: Tolerance) -> str:
    miss = "" if measure.is_within(item, tolerance) else MISS
    return f"{measure.value(item):{measure.form}}{miss}"


def _bound(measure: _Measure, tolerance: Tolerance) -> str:
    bound = measure.bound(tolerance)
    return "any" if bound is None else f"{'<=' if measure.grows else '>='} {bound}"
