"""How far answers are from the framework's, and whether that is near enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catalog.accepting import Accept, Precision, Tolerance
from catalog.manifests import ParityReport
from model_build.errors import ParityError

Array = NDArray[Any]
Stage = Literal["graph", "served"]
WHAT = {"graph": "the exported graph", "served": "the served artifact"}
ROWS_SHOWN = 12


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
    """The share of rows whose largest value stands in the same place."""

    def is_within(self, tolerance: Tolerance) -> bool:
        """Whether this is near enough."""
        return all(
            (
                tolerance.cosine is None or self.cosine >= tolerance.cosine,
                tolerance.absolute is None or self.absolute <= tolerance.absolute,
                tolerance.relative is None or self.relative <= tolerance.relative,
                tolerance.top1 is None or self.top1 >= tolerance.top1,
                self.absolute == self.absolute,
            )
        )


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row, in double precision; texts have to be the same."""
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
    largest = np.abs(theirs).max(axis=1)
    relative = np.divide(differences, largest, out=np.array(differences), where=largest > 0)
    top1 = (ours.argmax(axis=1) == theirs.argmax(axis=1)).mean()
    return Comparison(
        case,
        output,
        float(_cosines(ours, theirs).min()),
        float(differences.max()),
        float(relative.max()),
        float(top1),
    )


def judge(
    stage: Stage, comparisons: Sequence[Comparison], accept: Accept, *, precision: Precision = "fp32"
) -> ParityReport:
    """The report of a stage, or ParityError with a table of what missed by how much."""
    missed = [item for item in comparisons if not item.is_within(accept.tolerance(item.output, precision))]
    if missed:
        raise ParityError(
            f"{WHAT[stage]} answers otherwise than the framework in {len(missed)} of {len(comparisons)} "
            f"cases\n{_table(missed, accept, precision)}",
            remedy="if this precision cannot do better, widen `accept` in model.yaml; else report the model",
        )
    return report_of(stage, comparisons)


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
    same = np.array([_as_bytes(a) == _as_bytes(b) for a, b in zip(actual.flat, expected.flat, strict=True)])
    wrong = float((~same).sum())
    return Comparison(
        case, output, 1.0 if same.all() else float("nan"), wrong, float(wrong > 0), float(same.mean())
    )


def _as_bytes(item: object) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode()


def _cosines(ours: Array, theirs: Array) -> Array:
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    equal = (ours == theirs).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(equal, 1.0, (ours * theirs).sum(axis=1) / lengths)


def _table(missed: Sequence[Comparison], accept: Accept, precision: Precision) -> str:
    worst = sorted(missed, key=lambda item: (np.nan_to_num(item.cosine, nan=-2.0), -item.absolute))
    rows = [("case", "output", "cosine", "absolute", "relative", "top-1")]
    rows += [
        (
            item.case,
            item.output,
            f"{item.cosine:.7f}",
            f"{item.absolute:.2e}",
            f"{item.relative:.2e}",
            f"{item.top1:.3f}",
        )
        for item in worst[:ROWS_SHOWN]
    ]
    rows += _accepted({item.output for item in missed}, accept, precision)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _accepted(
    outputs: Iterable[str], accept: Accept, precision: Precision
) -> Iterator[tuple[str, str, str, str, str, str]]:
    for output in sorted(outputs):
        bound = accept.tolerance(output, precision)
        yield (
            "accepted",
            output,
            _bound(">=", bound.cosine),
            _bound("<=", bound.absolute),
            _bound("<=", bound.relative),
            _bound(">=", bound.top1),
        )


def _bound(sign: str, value: float | None) -> str:
    return "any" if value is None else f"{sign} {value}"
