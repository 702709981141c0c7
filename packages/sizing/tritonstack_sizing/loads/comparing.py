"""Compare two runs: how much faster or slower, how certain that is, and a verdict.

The uncertainty comes from the runs themselves: how much the parts of a run differ. A part is a
few slices long, because neighboring slices are alike (batch means).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.loads.histograms import percentiles_s
from tritonstack_sizing.loads.runs import LoadRun

Verdict = Literal["better", "worse", "no difference shown", "mixed"]
_MOST_PARTS = 10
_LEAST_PARTS = 8
"""A run with fewer gets no verdict."""
_DEVIATIONS = 2.2
"""Standard errors on both sides of a difference: Student's 95 % interval for so many parts."""
_PERCENTS = (50.0, 99.0)
_LEAST_CHANGE = 0.02
"""Changes below this are of no interest, however certain."""
_LEAST_FAILED_RISE = 0.001
"""The rise of the share of failed requests from which a run is worse."""


@dataclass(frozen=True)
class MeasuredDifference:
    """One measure of two runs, and its verdict."""

    measure: str
    before: float
    after: float
    ratio: float
    """`after` divided by `before`."""
    low: float
    high: float
    """The 95 % interval of the ratio."""
    verdict: Verdict


@dataclass(frozen=True)
class RunComparison:
    """Two runs under the same load."""

    load: str
    differences: tuple[MeasuredDifference, ...]
    verdict: Verdict


def compare_runs(before: LoadRun, after: LoadRun) -> RunComparison:
    """Compare two runs under the same load."""
    differences = tuple(_differences(before, after))
    verdicts = {difference.verdict for difference in differences} - {"no difference shown"}
    if after.failed_share > before.failed_share + _LEAST_FAILED_RISE:
        verdicts.add("worse")
    if not verdicts:
        return RunComparison(after.load, differences, "no difference shown")
    return RunComparison(after.load, differences, verdicts.pop() if len(verdicts) == 1 else "mixed")


def _differences(before: LoadRun, after: LoadRun) -> Iterator[MeasuredDifference]:
    """Yield the answers per second, and the percentiles for which both runs have enough answers."""
    before_ms, after_ms = before.percentiles_ms(), after.percentiles_ms()
    before_parts, after_parts = _parts(before), _parts(after)
    if min(len(before_parts[0]), len(after_parts[0])) < _LEAST_PARTS:
        return  # nothing shows how much such a run differs by chance
    yield _difference(
        "answers per second", before.answered_per_s, after.answered_per_s, before_parts[0], after_parts[0]
    )
    for number, percent in enumerate(_PERCENTS, 1):
        enough = (
            min(np.isfinite(parts[number]).sum() for parts in (before_parts, after_parts)) >= _LEAST_PARTS
        )
        if percent in before_ms and percent in after_ms and enough:
            yield _difference(
                f"p{percent:g} ms",
                before_ms[percent],
                after_ms[percent],
                before_parts[number],
                after_parts[number],
                more_is_better=False,
            )


def _parts(run: LoadRun) -> list[NDArray[np.float64]]:
    """Return the answers of each part of a run, and its percentiles."""
    parts = np.array_split(np.arange(len(run.kept)), min(_MOST_PARTS, len(run.kept)))
    answers = [np.mean([run.kept[index].answered for index in part]) for part in parts]
    latencies = np.array([sum(run.kept[index].latencies for index in part) for part in parts])
    return [np.array(answers), *percentiles_s(latencies, _PERCENTS).T]


def _error(parts: NDArray[np.float64]) -> float:
    """Return the standard error of the mean of some parts, as a share of it."""
    measured = parts[np.isfinite(parts)]
    mean = measured.mean()
    return float(measured.std(ddof=1) / mean / np.sqrt(len(measured))) if mean else 0.0


def _difference(
    measure: str,
    before: float,
    after: float,
    before_parts: NDArray[np.float64],
    after_parts: NDArray[np.float64],
    *,
    more_is_better: bool = True,
) -> MeasuredDifference:
    ratio = after / max(before, 1e-12)
    margin = float(np.exp(_DEVIATIONS * np.hypot(_error(before_parts), _error(after_parts))))
    low, high = ratio / margin, ratio * margin
    verdict: Verdict = "no difference shown"
    if low > 1 + _LEAST_CHANGE:
        verdict = "better" if more_is_better else "worse"
    elif high < 1 - _LEAST_CHANGE:
        verdict = "worse" if more_is_better else "better"
    return MeasuredDifference(measure, before, after, ratio, low, high, verdict)
