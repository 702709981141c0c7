"""Synthetic servers: throughput and latency of each combination, with interactions and noise."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tritonstack_sizing.tuning.search import Search, TunedRun
from tritonstack_sizing.tuning.spaces import Choice, Dimension, Measured, Objective, SearchSpace

USERS = 64
CORES = 4


@dataclass(frozen=True)
class Surface:
    """A space, what each combination costs, and how exactly it is measured."""

    space: SearchSpace
    truth: Callable[[dict[str, float]], Measured]
    noise: float = 0.02
    drift: float = 0.0
    """How much faster or slower the machine becomes over 20 runs."""

    def at(self, choice: Choice) -> Measured:
        return self.truth(self.space.values(choice))

    def measured(self, choice: Choice, number: int, generator: random.Random) -> Measured:
        true = self.at(choice)
        if not true.usable:
            return true
        factor = math.exp(generator.gauss(0, self.noise) - self.drift * number / 20)
        tail = math.exp(generator.gauss(0, self.noise))
        return Measured(
            true.answered_per_s * factor, true.p50_ms / factor, true.p99_ms / factor * tail, true.failed_share
        )


def closed(cost_ms: float, spread: float) -> Measured:
    """A closed loop of users: throughput and latency follow from the time per request."""
    throughput = 1000 / cost_ms
    p50 = USERS / throughput * 1000
    return Measured(throughput, p50, p50 * (1 + spread))


MINILM_PER_SECOND = {
    (0.0, 0): {1: (250, 244, 224, 184), 2: (290, 296, 266, 223), 4: (270, 264, 230, 199)},
    (0.0, 5000): {1: (270, 302, 262, 257), 2: (165, 271, 206, 152), 4: (264, 171, 192, 205)},
    (1.0, 0): {1: (464, 466, 513, 424), 2: (683, 680, 619, 523), 4: (603, 595, 541, 440)},
    (1.0, 5000): {1: (481, 514, 474, 361), 2: (384, 407, 452, 368), 4: (393, 421, 466, 376)},
}
"""Runs of 5 s on two cores: precision and delay, instances, and tokens.

A delay helps one instance and hurts two, so the best settings look bad in runs that change both.
"""


def measured_grid(values: dict[str, float]) -> Measured:
    """MiniLM, each combination measured once."""
    row = MINILM_PER_SECOND[values["precision"], int(values["delay"])][int(values["instances"])]
    return closed(1000 / row[(64, 128, 256, 512).index(int(values["tokens"]))], 0.5)


def rugged(values: dict[str, float]) -> Measured:
    """Two settings that help only together, and one that breaks some combinations."""
    if values["a"] == 4 and values["c"] == 3:
        return Measured(0, math.nan, math.nan, violation="out of memory")
    together = 0.6 if values["a"] >= 3 and values["b"] == 1 else 1.0
    alone = 1 + 0.15 * (values["b"] == 1) + 0.05 * abs(values["c"] - 1) + 0.04 * values["a"]
    return closed(4 * together * alone, 0.5)


def _dimension(name: str, values: tuple[float, ...], start: int = 0, *, ordered: bool = True) -> Dimension:
    return Dimension(name, values, start, ordered)


MEASURED = Surface(
    SearchSpace(
        (
            _dimension("instances", (1, 2, 4), 1),
            _dimension("tokens", (64, 128, 256, 512), 1),
            _dimension("delay", (0, 5000)),
            _dimension("precision", (0.0, 1.0), ordered=False),
        )
    ),
    measured_grid,
    noise=0.05,
)


RUGGED = Surface(
    SearchSpace(
        (
            _dimension("a", (0, 1, 2, 3, 4)),
            _dimension("b", (0.0, 1.0), ordered=False),
            _dimension("c", (0, 1, 2, 3), 2),
        )
    ),
    rugged,
)


def tune(
    surface: Surface, objective: Objective, *, most_runs: int, seed: int
) -> tuple[Choice, list[TunedRun]]:
    """Search a surface; return the chosen combination and all runs."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    search = Search(surface.space, objective, most_runs, seed)
    runs: list[TunedRun] = []
    while (following := search.next_run(runs)) is not None:
        figures = surface.measured(following.choice, len(runs), generator)
        runs.append(TunedRun(following.choice, figures))
    return search.best(runs), runs


def regret(surface: Surface, objective: Objective, choice: Choice) -> float:
    """Return by how much a choice is worse than the best of the whole grid, both without noise."""
    grid = [surface.at(candidate) for candidate in surface.space.grid()]
    best = max(objective.gain(figures) for figures in grid if objective.meets(figures))
    return 1 - math.exp(objective.gain(surface.at(choice)) - best)
