"""How far answers are from the framework's, and whether that is near enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from model_build.errors import ParityError
from tritonstack.records import comparing
from tritonstack.records.comparing import MEASURES, NAN_EXPECTED, Comparison, Measure
from tritonstack.records.manifests import ParityReport
from tritonstack.spec.models.tolerance import Accept, Tolerance, WantedPrecision

Array = NDArray[Any]
Stage = Literal["graph", "served"]
WHAT = {"graph": "the exported graph", "served": "the served artifact"}
ROWS_SHOWN = 12
MISS = "!"


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row; ParityError for another shape than the framework's."""
    try:
        return comparing.compare(case, output, actual=actual, expected=expected)
    except comparing.IncomparableError as error:
        raise ParityError(error.message) from error


def judge(
    stage: Stage, comparisons: Sequence[Comparison], accept: Accept, *, precision: WantedPrecision = "fp32"
) -> ParityReport:
    """The report of a stage, or ParityError with a table of what missed by how much."""
    missed = _misses(comparisons, accept, precision)
    if missed and all(item.note == NAN_EXPECTED for item in missed):
        names = sorted({f"{item.output} of {item.case}" for item in missed})
        raise ParityError(
            f"the model's own answer is NaN, so nothing can be compared with it: {', '.join(names[:5])}",
            remedy="check that test input (such as a logarithm of a negative number), the operators of the "
            "model, and its weights; an answer to compare with has to be a number",
        )
    if missed:
        raise ParityError(
            f"{WHAT[stage]} answers otherwise than the framework: {len(missed)} of {len(comparisons)} "
            f"outputs miss what is accepted, as marked by {MISS}\n{_table(missed, accept, precision)}",
            remedy="if this precision cannot do better, widen `accept` in model.yaml; else report the model",
        )
    return report_of(stage, comparisons)


def describe_miss(
    comparisons: Sequence[Comparison], accept: Accept, precision: WantedPrecision
) -> str | None:
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
        f"{measure.told_bound(tolerance)}"
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


def _misses(
    comparisons: Iterable[Comparison], accept: Accept, precision: WantedPrecision
) -> list[Comparison]:
    """Those that are not near enough, the worst first."""

    def excess(item: Comparison) -> float:
        tolerance = _tolerance(item, accept, precision)
        return max(measure.excess(item, tolerance) for measure in MEASURES)

    missed = [item for item in comparisons if not item.is_within(_tolerance(item, accept, precision))]
    return sorted(missed, key=excess, reverse=True)


def _tolerance(item: Comparison, accept: Accept, precision: WantedPrecision) -> Tolerance:
    return accept.tolerance(item.output, precision, item.answers)


def _table(missed: Sequence[Comparison], accept: Accept, precision: WantedPrecision) -> str:
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
        ["accepted", output, *(measure.told_bound(tolerance) for measure in asked), ""]
        for output, tolerance in tolerances.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _cell(measure: Measure, item: Comparison, tolerance: Tolerance) -> str:
    miss = "" if measure.is_within(item, tolerance) else MISS
    return f"{measure.value(item):{measure.form}}{miss}"
