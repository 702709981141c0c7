"""Predict the scores of unmeasured combinations from measured ones: a Gaussian process on a small grid.

The covariance has four parts: a sum over the dimensions (each setting has an effect of its own), a product
over them (settings depend on each other), the time (a machine drifts, and repeated combinations show by how
much), and noise. Their shares and lengths are those with the highest likelihood among a fixed list, so that
equal measurements give equal predictions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tritonstack_sizing.tuning.spaces import Choice, SearchSpace

Array = NDArray[np.float64]
_LENGTHS = (0.3, 0.7)
"""How far apart values are alike, on the scale of `Dimension.places`."""
_INTERACTIONS = (0.4, 0.8)
"""Shares of the product."""
_NOISES = (0.01, 0.025, 0.05)
"""Standard deviation of a run: 0.01 is 1 %, because scores are logarithms."""
_DRIFTS = (0.0, 0.05)
"""Standard deviation of the drift of the machine."""
_LEAST_SCALE = 0.25
"""Standard deviation of the scores of all combinations, at least: few runs show too little of it."""
_DRIFT_RUNS = 8.0
"""Runs after which drifts have little in common."""
_JITTER = 1e-9


class Observation(NamedTuple):
    """A measured combination: when, and how good."""

    choice: Choice
    when: int
    """The number of the run."""
    score: float


class _Shape(NamedTuple):
    length: float
    interaction: float
    noise: float
    drift: float


@dataclass(frozen=True)
class Surrogate:
    """A fitted predictor."""

    space: SearchSpace
    seen: Sequence[Observation]
    shape: _Shape
    center: float
    scale: float
    weights: Array
    factor: Array

    def predict(self, choices: Sequence[Choice]) -> tuple[Array, Array]:
        """Return the mean and the standard deviation of each score, without noise and drift."""
        across = _alike(self.space, choices, [observation.choice for observation in self.seen], self.shape)
        solved = np.linalg.solve(self.factor, across.T)
        variance = np.maximum(1.0 - (solved**2).sum(axis=0), _JITTER)
        return across @ self.weights * self.scale + self.center, np.sqrt(variance) * self.scale


def fit(space: SearchSpace, observations: Sequence[Observation]) -> Surrogate:
    """Return the most likely predictor of some measurements; at least one."""
    scores = np.array([observation.score for observation in observations])
    center = float(scores.mean())
    scale = max(_LEAST_SCALE, float(scores.std()))
    values = (scores - center) / scale
    times = np.array([float(observation.when) for observation in observations])
    apart = np.exp(-(((times[:, None] - times[None, :]) / _DRIFT_RUNS) ** 2))
    choices = [observation.choice for observation in observations]
    best: tuple[float, _Shape, Array, Array] | None = None
    for length, interaction in itertools.product(_LENGTHS, _INTERACTIONS):
        settings = _alike(space, choices, choices, _Shape(length, interaction, 0.0, 0.0))
        for noise, drift in itertools.product(_NOISES, _DRIFTS):
            whole = settings + (drift / scale) ** 2 * apart + (noise / scale) ** 2 * np.eye(len(observations))
            factor = np.linalg.cholesky(whole)
            half = np.linalg.solve(factor, values)
            likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum())
            if best is None or likelihood > best[0] + 1e-9:
                weights = np.linalg.solve(factor.T, half)
                best = likelihood, _Shape(length, interaction, noise, drift), weights, factor
    assert best is not None  # noqa: S101 - there is at least one shape
    return Surrogate(space, tuple(observations), best[1], center, scale, best[2], best[3])


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
