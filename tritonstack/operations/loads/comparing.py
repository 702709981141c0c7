"""Compare two runs: how much faster or slower, how certain that is, and a verdict.

The uncertainty comes from the runs themselves: their slices are drawn again at random, in groups of
neighbours (block bootstrap), because neighbouring slices are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tritonstack.operations.loads.histograms import percentiles_s
from tritonstack.operations.loads.runs import LoadRun

Verdict = Literal["better", "worse", "no difference shown", "mixed"]
_DRAWS = 1_000
_NEIGHBORS = 4
_LEAST_SLICES = 8
_COMPARED = (50.0, 99.0)
_SAME = 0.02
"""Differences below this are of no interest, however certain."""
_FAILED = 0.001
"""A rise of the share of failed requests that counts."""


@dataclass(frozen=True)
class MeasuredDifference:
    """One measure of two runs."""

    measure: str
    before: float
    after: float
    ratio: float
    """`after` divided by `before`."""
    low: float
    high: float
    """The ratio's 95 % interval."""
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
    if after.failed_share > before.failed_share + _FAILED:
        verdicts.add("worse")
    if not verdicts:
        return RunComparison(after.load, differences, "no difference shown")
    return RunComparison(after.load, differences, verdicts.pop() if len(verdicts) == 1 else "mixed")


def _differences(before: LoadRun, after: LoadRun) -> Iterator[MeasuredDifference]:
    draws = [_drawn(run, seed=number) for number, run in enumerate((before, after))]
    rates = [
        weights @ _answers(run) / run.seconds for weights, run in zip(draws, (before, after), strict=True)
    ]
    yield _difference(
        "answers per second",
        before.answered_per_s,
        after.answered_per_s,
        rates[0],
        rates[1],
        more_is_better=True,
    )
    counts = [
        percentiles_s(weights @ np.array([part.latencies for part in run.kept]), _COMPARED) * 1000
        for weights, run in zip(draws, (before, after), strict=True)
    ]
    percentiles = [run.percentiles_ms() for run in (before, after)]
    for column, percent in enumerate(_COMPARED):
        if percent in percentiles[0] and percent in percentiles[1]:
            yield _difference(
                f"p{percent:g} ms",
                percentiles[0][percent],
                percentiles[1][percent],
                counts[0][:, column],
                counts[1][:, column],
                more_is_better=False,
            )


def _answers(run: LoadRun) -> NDArray[np.int64]:
    return np.array([part.answered for part in run.kept])


def _drawn(run: LoadRun, *, seed: int) -> NDArray[np.float64]:
    """Return how often each slice is drawn, per draw."""
    count = len(run.kept)
    width = min(_NEIGHBORS, max(1, count // _LEAST_SLICES))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, count, (_DRAWS, -(-count // width)))
    picked = (starts[:, :, None] + np.arange(width)) % count
    weights = np.zeros((_DRAWS, count))
    for draw, slices in enumerate(picked.reshape(_DRAWS, -1)[:, :count]):
        weights[draw] = np.bincount(slices, minlength=count)
    return weights


def _difference(
    measure: str,
    before: float,
    after: float,
    draws_before: NDArray[np.float64],
    draws_after: NDArray[np.float64],
    *,
    more_is_better: bool,
) -> MeasuredDifference:
    ratios = draws_after / np.maximum(draws_before, 1e-12)
    low, high = (float(value) for value in np.nanpercentile(ratios, [2.5, 97.5]))
    verdict: Verdict = "no difference shown"
    if low > 1 + _SAME:
        verdict = "better" if more_is_better else "worse"
    elif high < 1 - _SAME:
        verdict = "worse" if more_is_better else "better"
    return MeasuredDifference(measure, before, after, after / max(before, 1e-12), low, high, verdict)
