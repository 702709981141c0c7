"""How far answers are from the framework's, and whether that is near enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catalog.manifests import ParityReport
from catalog.models import Accept
from model_build.errors import ParityError

Array = NDArray[Any]
Stage = Literal["graph", "served"]
WHAT = {"graph": "the exported graph", "served": "the served artifact"}
ROWS_SHOWN = 12


@dataclass(frozen=True)
class Comparison:
    """One output of one request against the framework's."""

    case: str
    output: str
    cosine: float
    """The lowest cosine similarity of any row; not a number where the answer is none."""
    absolute: float
    """The largest difference of any value."""

    def is_within(self, accept: Accept) -> bool:
        """Whether this is near enough; a comparison with NaN never is."""
        return self.cosine >= accept.cosine and self.absolute <= accept.absolute


def compare(case: str, output: str, *, actual: Array, expected: Array) -> Comparison:
    """Compare row by row, in double precision."""
    if actual.shape != expected.shape:
        raise ParityError(
            f"{case}: {output} has the shape {list(actual.shape)}, the framework's {list(expected.shape)}"
        )
    ours = actual.astype(np.float64).reshape(len(actual), -1)
    theirs = expected.astype(np.float64).reshape(len(expected), -1)
    return Comparison(case, output, float(_cosines(ours, theirs).min()), float(np.abs(ours - theirs).max()))


def judge(stage: Stage, comparisons: Sequence[Comparison], accept: Accept) -> ParityReport:
    """The report of a stage, or ParityError with a table of what missed by how much."""
    missed = [comparison for comparison in comparisons if not comparison.is_within(accept)]
    if missed:
        raise ParityError(
            f"{WHAT[stage]} answers otherwise than the framework in {len(missed)} of {len(comparisons)} "
            f"cases\n{_table(missed, accept)}",
            remedy="if this precision cannot do better, widen `accept` in model.yaml; else report the model",
        )
    return ParityReport(
        stage=stage,
        cases=len(comparisons),
        min_cosine=min(comparison.cosine for comparison in comparisons),
        max_absolute_error=max(comparison.absolute for comparison in comparisons),
    )


def _cosines(ours: Array, theirs: Array) -> Array:
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    equal = (ours == theirs).all(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(equal, 1.0, (ours * theirs).sum(axis=1) / lengths)


def _table(missed: Sequence[Comparison], accept: Accept) -> str:
    worst = sorted(missed, key=lambda item: (np.nan_to_num(item.cosine, nan=-2.0), -item.absolute))
    rows = [
        (item.case, item.output, f"{item.cosine:.7f}", f"{item.absolute:.2e}") for item in worst[:ROWS_SHOWN]
    ]
    rows.insert(0, ("case", "output", "cosine", "absolute"))
    rows.append(("accepted", "", f">= {accept.cosine}", f"<= {accept.absolute}"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
