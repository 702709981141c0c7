"""What one contestant reached, and the thresholds that compare two of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.serving.load import Round


@dataclass(frozen=True)
class Goal:
    """A threshold: how much better one contestant must be than another in the same rounds."""

    ours: str
    peer: str
    throughput: float | None = None
    """Least ratio of the rates."""
    p99: float | None = None
    """Largest ratio of the 99th percentiles."""
    p50: float | None = None
    """Largest ratio of the medians."""
    users: int | None = None
    """Connections; default: the run's."""


@dataclass(frozen=True)
class Row:
    """The rounds of one contestant with a number of users."""

    contestant: str
    backend: str
    form: str
    users: int
    rounds: Sequence[Round]

    def median(self, figure: str) -> float:
        """Return the median of a figure of the rounds."""
        return float(statistics.median(getattr(result, figure) for result in self.rounds))

    @property
    def errors(self) -> int:
        """Requests that failed in all rounds."""
        return sum(result.errors for result in self.rounds)

    @property
    def wrong(self) -> list[str]:
        """Different answers from the framework's, in all rounds."""
        return [text for result in self.rounds for text in result.wrong]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        rates = [result.rate for result in self.rounds]
        return {
            "contestant": self.contestant,
            "backend": self.backend,
            "form": self.form,
            "users": self.users,
            "rps": round(self.median("rate"), 1),
            "rps_min": round(min(rates), 1),
            "rps_max": round(max(rates), 1),
            "p50_ms": round(self.median("p50_ms"), 2),
            "p99_ms": round(self.median("p99_ms"), 2),
            "cpu_ms_per_request": round(self.median("processor_ms"), 3),
            "cosine_min": round(min(result.cosine for result in self.rounds), 5),
            "errors": self.errors,
            "wrong_answers": self.wrong,
            "rounds": [asdict(result) for result in self.rounds],
        }


@dataclass(frozen=True)
class Outcome:
    """One threshold of a goal, and what was measured."""

    goal: Goal
    users: int
    figure: str
    threshold: float
    ratio: float
    processor: float
    """The peer's CPU time per request, divided by the contestant's: steadier on a busy machine."""

    @property
    def met(self) -> bool:
        """Whether the ratio reaches the threshold; latencies must stay below it."""
        return self.ratio >= self.threshold if self.figure == "throughput" else self.ratio <= self.threshold

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "contestant": self.goal.ours,
            "against": self.goal.peer,
            "users": self.users,
            "figure": self.figure,
            "threshold": round(self.threshold, 3),
            "ratio": round(self.ratio, 3),
            "cpu_ratio": round(self.processor, 3),
            "met": self.met,
        }


def outcomes(goals: Sequence[Goal], rows: Sequence[Row], users: int) -> Iterator[Outcome]:
    """Yield the thresholds of the goals with their ratios: each the median of the ratios within a round."""
    measured = {(row.contestant, row.users): row.rounds for row in rows}
    figures = {"throughput": "rate", "p99": "p99_ms", "p50": "p50_ms"}
    for goal in goals:
        count = goal.users or users
        ours, peer = measured[goal.ours, count], measured[goal.peer, count]
        for figure, name in figures.items():
            threshold = getattr(goal, figure)
            if threshold is None:
                continue
            ratio, processor = _ratio(ours, peer, name), _ratio(peer, ours, "processor_ms")
            yield Outcome(goal, count, figure, threshold, ratio, processor)


def _ratio(ours: Sequence[Round], peer: Sequence[Round], name: str) -> float:
    """Return the median of the ratios of a figure within each round."""
    pairs = zip(ours, peer, strict=True)
    ratios = [getattr(own, name) / max(getattr(other, name), 1e-9) for own, other in pairs]
    return float(statistics.median(ratios))
