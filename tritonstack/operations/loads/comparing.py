"""Compare two runs: how much faster or slower, how certain that is, and a verdict.

The uncertainty comes from the runs themselves: their slices are drawn again at random, in groups of
neighbors (block bootstrap), because neighboring slices are alike.
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
"""Slices per group at most."""
_LEAST_GROUPS = 8
"""Shorter runs have smaller groups, so that there are this many to draw from."""
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
    draws = ((before, _drawn_weights(before, seed=0)), (after, _drawn_weights(after, seed=1)))
    rates = [weights @ _answers(run) / run.seconds for run, weights in draws]
    yield _difference(
        "answers per second", before.answered_per_s, after.answered_per_s, *rates, more_is_better=True
    )
    drawn_ms = [
        percentiles_s(weights @ np.array([part.latencies for part in run.kept]), _PERCENTS) * 1000
        for run, weights in draws
    ]
    before_ms, after_ms = before.percentiles_ms(), after.percentiles_ms()
    for column, percent in enumerate(_PERCENTS):
        if percent in before_ms and percent in after_ms:
            yield _difference(
                f"p{percent:g} ms",
                before_ms[percent],
                after_ms[percent],
                *(values[:, column] for values in drawn_ms),
                more_is_better=False,
            )


def _answers(run: LoadRun) -> NDArray[np.int64]:
    return np.array([part.answered for part in run.kept])


def _drawn_weights(run: LoadRun, *, seed: int) -> NDArray[np.float64]:
    """Return a row per draw: how often each slice was drawn."""
    count = len(run.kept)
    width = min(_NEIGHBORS, max(1, count // _LEAST_GROUPS))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, count, (_DRAWS, -(-count // width)))
    slices = (starts[:, :, None] + np.arange(width)) % count
    weights = np.zeros((_DRAWS, count))
    for draw, drawn_slices in enumerate(slices.reshape(_DRAWS, -1)[:, :count]):
        weights[draw] = np.bincount(drawn_slices, minlength=count)
    return weights


def _difference(
    measure: str,
    before: float,
    after: float,
    drawn_before: NDArray[np.float64],
    drawn_after: NDArray[np.float64],
    *,
    more_is_better: bool,
) -> MeasuredDifference:
    ratios = drawn_after / np.maximum(drawn_before, 1e-12)
    low, high = (float(value) for value in np.nanpercentile(ratios, [2.5, 97.5]))
    verdict: Verdict = "no difference shown"
    if low > 1 + _LEAST_CHANGE:
        verdict = "better" if more_is_better else "worse"
    elif high < 1 - _LEAST_CHANGE:
        verdict = "worse" if more_is_better else "better"
    return MeasuredDifference(measure, before, after, after / max(before, 1e-12), low, high, verdict)
