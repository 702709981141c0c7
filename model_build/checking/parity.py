"""Measure the difference from the framework's answers, and check it against `accept`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from model_build.data import Array, Case, join_cases, same_shapes
from model_build.errors import ParityError
from tritonstack.files.model.tolerance import ModelTolerance, PrecisionOption, Tolerance
from tritonstack.files.records import comparing
from tritonstack.files.records.comparing import MEASURES, NAN_EXPECTED, Comparison, Measure
from tritonstack.files.records.manifests import ParityReport

Stage = Literal["graph", "served", "repeated"]
"""repeated: the answers of the served artifact, compared with its own earlier ones."""
WHAT = {
    "graph": "the exported graph differs from the framework",
    "served": "the served artifact differs from the framework",
    "repeated": "the served artifact answers the same requests differently",
}
WIDEN = "if the precision allows no better, widen `accept` in model.yaml; else report a bug"
REPEAT = (
    "make the answers depend on the request alone: fix random seeds, and compute each row of a batch alone; "
    "or widen `accept` in model.yaml"
)
ROWS_SHOWN = 12
MISS = "!"


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row; raise ParityError if shapes differ."""
    try:
        return comparing.compare(case, output, actual=actual, expected=expected)
    except comparing.IncomparableError as error:
        raise ParityError(
            error.message,
            remedy="export or save the model so that each output keeps the framework's shape, with the batch "
            "as its first dimension",
        ) from error


def judge(
    stage: Stage,
    comparisons: Sequence[Comparison],
    accept: ModelTolerance,
    *,
    precision: PrecisionOption = "fp32",
) -> ParityReport:
    """Return the report of a stage; raise ParityError with a table of all misses."""
    misses = _misses(comparisons, accept, precision)
    if misses and all(item.note == NAN_EXPECTED for item in misses):
        names = sorted({f"{item.output} of {item.case}" for item in misses})
        owner = "the model" if stage == "repeated" else "the framework"
        raise ParityError(
            f"{owner}'s own answer is NaN, so it cannot be compared: {', '.join(names[:5])}",
            remedy="check the test input (such as a logarithm of a negative number), the model's operators "
            "and weights",
        )
    if misses:
        raise ParityError(
            f"{WHAT[stage]}: {len(misses)} of {len(comparisons)} "
            f"outputs exceed the tolerance, marked {MISS}\n{_table(misses, accept, precision)}",
            remedy=REPEAT if stage == "repeated" else WIDEN,
        )
    accepted: dict[str, Tolerance] = {}
    for item in comparisons:
        tolerance = _tolerance(item, accept, precision)
        # An output may have one number per row in one case and several in another.
        accepted[item.output] = accepted.get(item.output, tolerance).loosened(tolerance)
    return report_of(stage, comparisons).model_copy(update={"accepted": accepted})


def describe_miss(
    comparisons: Sequence[Comparison], accept: ModelTolerance, precision: PrecisionOption
) -> str | None:
    """Describe the worst miss; None if there is none."""
    misses = _misses(comparisons, accept, precision)
    if not misses:
        return None
    worst = misses[0]
    tolerance = _tolerance(worst, accept, precision)
    measure = max(MEASURES, key=lambda measure: measure.excess(worst, tolerance))
    return (
        f"exceeds the tolerance: {len(misses)} of {len(comparisons)} outputs; worst: {worst.output} of "
        f"{worst.case!r} with {measure.title} {measure.value(worst):{measure.form}}, tolerance "
        f"{measure.describe_bound(tolerance)}"
    )


def report_of(stage: Stage, comparisons: Sequence[Comparison]) -> ParityReport:
    """Return the worst value of every measure."""
    return ParityReport(
        stage="served" if stage == "repeated" else stage,
        cases=len(comparisons),
        min_cosine=min(item.cosine for item in comparisons),
        max_absolute_error=max(item.absolute for item in comparisons),
        max_relative_error=max(item.relative for item in comparisons),
        min_top1_agreement=min(item.top1 for item in comparisons),
        worst_case=min(comparisons, key=lambda item: (item.cosine, -item.absolute)).case,
    )


def describe_parity(report: ParityReport) -> str:
    """Describe a report in one line."""
    return (
        f"{report.cases} cases, cosine >= {report.min_cosine:.7f}, error <= {report.max_absolute_error:.1e}"
    )


def _misses(
    comparisons: Iterable[Comparison], accept: ModelTolerance, precision: PrecisionOption
) -> list[Comparison]:
    """Return the comparisons outside the tolerance, worst first."""

    def excess(item: Comparison) -> float:
        tolerance = _tolerance(item, accept, precision)
        return max(measure.excess(item, tolerance) for measure in MEASURES)

    misses = [item for item in comparisons if not item.is_within(_tolerance(item, accept, precision))]
    return sorted(misses, key=excess, reverse=True)


def _tolerance(item: Comparison, accept: ModelTolerance, precision: PrecisionOption) -> Tolerance:
    return accept.tolerance(item.output, precision, item.answers)


def _table(misses: Sequence[Comparison], accept: ModelTolerance, precision: PrecisionOption) -> str:
    """Format the misses as a table, worst first, with the measures that have a tolerance."""
    tolerances = {
        item.output: _tolerance(item, accept, precision)
        for item in sorted(misses, key=lambda item: item.output)
    }
    measures = [
        measure
        for measure in MEASURES
        if any(measure.bound(tolerance) is not None for tolerance in tolerances.values())
    ]
    rows = [["case", "output", *(measure.title for measure in measures), ""]]
    rows += [
        [
            item.case,
            item.output,
            *(_cell(measure, item, tolerances[item.output]) for measure in measures),
            item.note,
        ]
        for item in misses[:ROWS_SHOWN]
    ]
    rows += [
        ["accepted", output, *(measure.describe_bound(tolerance) for measure in measures), ""]
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


Answer = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def compare_all(answer: Answer, cases: Iterable[Case]) -> list[Comparison]:
    """Compare every output of every case with the expected one."""
    comparisons = []
    for case in cases:
        actual = answer(case.inputs)
        comparisons += [
            compare(case.name, name, actual=actual[name], expected=expected)
            for name, expected in case.expected.items()
        ]
    return comparisons


def compare_answers(
    answer: Answer, cases: Sequence[Case], accept: ModelTolerance, *, max_batch: int
) -> ParityReport:
    """Run each case alone and, if the model batches, batches of cases with equal shapes."""
    groups = (alike[:max_batch] for alike in same_shapes(cases)) if max_batch > 1 else ()
    joined = [join_cases(alike) for alike in groups if len(alike) > 1]
    return judge("graph", compare_all(answer, [*cases, *joined]), accept)
