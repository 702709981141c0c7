"""Choose the next run from the runs so far, and the best combination at the end.

The first runs are the start and combinations that are far from each other. Then follows the combination with
the highest expected improvement by the surrogate, among those that differ from the best one in one setting.
The last runs repeat the finalists, because the best of many noisy figures is too good. Nothing is remembered
between calls: the same runs and the same seed give the same next run.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.tuning.spaces import Choice, Measured, Objective, SearchSpace

Array = NDArray[np.float64]
_LENGTHS = (0.3, 0.7)
"""How far apart values are alike, on the scale of `Dimension.places`."""
_INTERACTIONS = (0.4, 0.8)
"""Shares of the product."""
_NOISES = (0.01, 0.025, 0.05)
"""Standard deviation of a run: 0.01 is 1 %, because scores are logarithms."""
_LEAST_SCALE = 0.25
"""Standard deviation of the scores of all combinations, at least: few runs show too little of it."""
_JITTER = 1e-9


class _Shape(NamedTuple):
    length: float
    interaction: float


@dataclass(frozen=True)
class Surrogate:
    """Predict the scores of combinations from measured ones: a Gaussian process on a small grid.

    The covariance is a sum over the dimensions (each setting has an effect of its own), a product over them
    (settings depend on each other), and noise. Shares, lengths, and noise are those with the highest
    likelihood among a fixed list, so that equal measurements give equal predictions.
    """

    space: SearchSpace
    measured: Sequence[Choice]
    shape: _Shape
    center: float
    scale: float
    weights: Array
    factor: NDArray[np.floating]

    def predict(self, choices: Sequence[Choice]) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of each score, without noise."""
        across = _alike(self.space, choices, self.measured, self.shape)
        solved = np.linalg.solve(self.factor, across.T)
        variance = np.maximum(1.0 - (solved**2).sum(axis=0), _JITTER)
        return across @ self.weights * self.scale + self.center, np.sqrt(variance) * self.scale


def fit(space: SearchSpace, choices: Sequence[Choice], scores: Array) -> Surrogate:
    """Return the most likely predictor of the scores of some runs; at least one."""
    center, scale = float(scores.mean()), max(_LEAST_SCALE, float(scores.std()))
    values = (scores - center) / scale

    def fitted(shape: _Shape, likeness: Array, noise: float) -> tuple[float, Surrogate]:
        whole = likeness + (noise / scale) ** 2 * np.eye(len(choices))
        factor = np.linalg.cholesky(whole)
        half = np.linalg.solve(factor, values)
        likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
        weights = np.linalg.solve(factor.T, half)
        return likelihood, Surrogate(space, choices, shape, center, scale, weights, factor)

    fits = [
        fitted(shape, likeness, noise)
        for shape in itertools.starmap(_Shape, itertools.product(_LENGTHS, _INTERACTIONS))
        for likeness in (_alike(space, choices, choices, shape),)
        for noise in _NOISES
    ]
    return max(fits, key=lambda pair: pair[0])[1]


def _alike(space: SearchSpace, rows: Sequence[Choice], columns: Sequence[Choice], shape: _Shape) -> Array:
    """Return how alike combinations are: 1 for equal ones."""
    first, second = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
    added = np.zeros((len(first), len(second)))
    multiplied = np.ones_like(added)
    for index, dimension in enumerate(space.dimensions):
        places = np.array(dimension.places)
        if dimension.ordered:
            distance = places[first[:, index]][:, None] - places[second[:, index]][None, :]
            likeness: Array = np.exp(-0.5 * (distance / shape.length) ** 2)
        else:
            likeness = np.where(first[:, index][:, None] == second[:, index][None, :], 1.0, 0.3)
        added += likeness
        multiplied *= likeness
    share = shape.interaction
    return (1 - share) * added / max(1, len(space.dimensions)) + share * multiplied


Purpose = Literal["start", "spread", "search", "finalist"]
_SMALL_GRID = 12
"""A grid up to this size is measured whole."""
_BROKEN = 0.7
"""How far below the worst result a combination without one is taken to be, as a logarithm."""
_PATIENCE = 6
"""After so many runs without another best one, the search looks everywhere."""
_SAME = 0.01
"""Of combinations whose predicted scores are this close, the one with fewer changes is chosen."""


@dataclass(frozen=True)
class TunedRun:
    """A measured combination."""

    choice: Choice
    found: Measured


@dataclass(frozen=True)
class NextRun:
    """A combination to measure, and why."""

    choice: Choice
    purpose: Purpose


@dataclass(frozen=True)
class Search:
    """A search over a space."""

    space: SearchSpace
    objective: Objective
    most_runs: int
    seed: int = 1

    def next_run(self, runs: Sequence[TunedRun]) -> NextRun | None:
        """Return what to measure after some runs; None at the end."""
        number = len(runs)
        if number >= self.most_runs:
            return None
        if not runs:
            return NextRun(self.space.start, "start")
        measured = {run.choice for run in runs}
        following: NextRun | None = None
        if self.space.size <= min(_SMALL_GRID, self.most_runs):
            candidates = [
                choice for choice in self.space.sample(self.space.size, self.seed) if choice not in measured
            ]
            following = NextRun(candidates[0], "spread") if candidates else None
        elif number < self.most_runs - self._finalists:
            following = self._searched(runs, measured)
        return following or self._finalist(runs)

    def _searched(self, runs: Sequence[TunedRun], measured: set[Choice]) -> NextRun | None:
        if len(runs) < self._spread:
            return NextRun(self._farthest(sorted(measured)), "spread")
        choice = self._most_promising(runs, measured)
        return None if choice is None else NextRun(choice, "search")

    def best(self, runs: Sequence[TunedRun]) -> Choice:
        """Return the best measured combination, by all runs together; the start if nothing is better."""
        choices = list(dict.fromkeys(run.choice for run in runs))
        usable = [choice for choice in choices if all(run.found.usable for run in of(runs, choice))]
        within = [choice for choice in usable if self.meets(runs, choice)]
        if not usable:
            return self.space.start
        if not within:  # the one that comes closest to the limits
            return max(usable, key=lambda choice: self.objective.slack(average(_found(runs, choice))))
        gains = dict(zip(within, self._gains(runs).predict(within)[0].tolist(), strict=True))
        top = max(gains.values())
        alike = [choice for choice in within if gains[choice] >= top - _SAME]
        return min(alike, key=lambda choice: (self._changes(choice), -gains[choice]))

    def meets(self, runs: Sequence[TunedRun], choice: Choice) -> bool:
        """Return whether the runs of a combination stay within the limits, by their geometric mean."""
        results = _found(runs, choice)
        return all(result.usable for result in results) and self.objective.meets(average(results))

    @property
    def _finalists(self) -> int:
        """The number of runs that repeat the best combinations."""
        return 0 if self.most_runs < 6 else 1 if self.most_runs < 18 else 3

    @property
    def _spread(self) -> int:
        """The number of first runs, the start included."""
        return max(2, min(4, self.most_runs // 3))

    def _changes(self, choice: Choice) -> int:
        return sum(place != start for place, start in zip(choice, self.space.start, strict=True))

    def _farthest(self, measured: Sequence[Choice]) -> Choice:
        """Return a combination with the values, and the pairs of values, that the measured ones lack most.

        Without the pairs, two settings could change together in all first runs, and their effects would look
        like one.
        """
        candidates = self.space.sample(512, self.seed + len(measured))
        dimensions = range(len(self.space.dimensions))
        pairs = list(itertools.combinations(dimensions, 2))
        values = Counter((index, choice[index]) for choice in measured for index in dimensions)
        joint = Counter(
            (first, second, choice[first], choice[second]) for choice in measured for first, second in pairs
        )

        def novelty(choice: Choice) -> tuple[int, int, float]:
            repeated = sum(values[index, choice[index]] for index in dimensions)
            together = sum(joint[first, second, choice[first], choice[second]] for first, second in pairs)
            return -repeated, -together, min(self._distance(choice, other) for other in measured)

        return max((candidate for candidate in candidates if candidate not in measured), key=novelty)

    def _distance(self, first: Choice, second: Choice) -> float:
        return sum(
            abs(dimension.places[a] - dimension.places[b]) if dimension.ordered else float(a != b)
            for dimension, a, b in zip(self.space.dimensions, first, second, strict=True)
        )

    def _most_promising(self, runs: Sequence[TunedRun], measured: set[Choice]) -> Choice | None:
        """Return the combination with the highest expected improvement; None if all are measured.

        One change of the best combination comes first: few runs predict little about others. If that has
        failed for some runs, or the limits are not met, all combinations compete.
        """
        best = self.best(runs)
        is_stuck = len(runs) > _PATIENCE and self.best(runs[:-_PATIENCE]) == best
        slacks = self._slacks(runs)
        is_within = slacks is None or self.meets(runs, best)
        near = () if is_stuck or not is_within else self.space.near(best)
        untried = [choice for choice in near if choice not in measured]
        if not untried:
            around = sorted(measured, key=lambda choice: choice != best)
            everything = self.space.candidates(around, self.seed + len(runs))
            untried = [choice for choice in everything if choice not in measured]
        if not untried:
            return None
        goal = self._gains(runs) if is_within or slacks is None else slacks
        means, deviations = goal.predict(untried)
        promised = _improvement(means - goal.predict([best])[0][0], deviations)
        if is_within and slacks is not None and not is_stuck:
            promised = promised * _positive(*slacks.predict(untried))
        return untried[int(np.argmax(promised))]

    def _finalist(self, runs: Sequence[TunedRun]) -> NextRun | None:
        """Return one of the best combinations that has been measured once only."""
        finalists, remaining = list[Choice](), list(runs)
        while remaining and len(finalists) < max(1, self._finalists):
            finalists.append(best := self.best(remaining))
            remaining = [run for run in remaining if run.choice != best]
        once = [choice for choice in finalists if len(of(runs, choice)) == 1]
        return NextRun(once[0], "finalist") if once else None

    def _gains(self, runs: Sequence[TunedRun]) -> Surrogate:
        return self._fitted(runs, self.objective.gain)

    def _slacks(self, runs: Sequence[TunedRun]) -> Surrogate | None:
        """Return the predictor of what limits leave; None if nothing is limited."""
        if self.objective.is_limited or any(not self.objective.meets(run.found) for run in runs):
            return self._fitted(runs, self.objective.slack)
        return None

    def _fitted(self, runs: Sequence[TunedRun], measure: Callable[[Measured], float]) -> Surrogate:
        values = [measure(run.found) for run in runs if run.found.usable]
        broken = min(values, default=0.0) - _BROKEN
        scores = [measure(run.found) if run.found.usable else broken for run in runs]
        return fit(self.space, [run.choice for run in runs], np.array(scores))


def default_runs(space: SearchSpace) -> int:
    """Return how many runs a search gets: at most a quarter of the grid, unless that is tiny."""
    if space.size <= _SMALL_GRID:
        return space.size
    return max(5, min(space.size // 4, 10 + 3 * len(space.dimensions)))


def of(runs: Sequence[TunedRun], choice: Choice) -> list[TunedRun]:
    """Return the runs of a combination."""
    return [run for run in runs if run.choice == choice]


def average(results: Sequence[Measured]) -> Measured:
    """Return the geometric mean of some runs of one combination."""

    def mean(values: Sequence[float]) -> float:
        return math.exp(sum(math.log(value) for value in values) / len(values))

    return Measured(
        mean([result.answered_per_s for result in results]),
        mean([result.p50_ms for result in results]),
        mean([result.p99_ms for result in results]),
        sum(result.failed_share for result in results) / len(results),
    )


def _found(runs: Sequence[TunedRun], choice: Choice) -> list[Measured]:
    return [run.found for run in of(runs, choice)]


def _improvement(gains: Array, deviations: Array) -> Array:
    """Return how much better than the best each candidate is expected to be."""
    density = np.exp(-0.5 * (gains / deviations) ** 2) / math.sqrt(2 * math.pi)
    improved: Array = gains * _positive(gains, deviations) + deviations * density
    return improved


def _positive(means: Array, deviations: Array) -> Array:
    """Return the probability that each of some normal variables is above 0."""
    return np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in means / deviations])
