"""Find the cheapest scaling policy that holds an objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal

import numpy as np

from tritonstack_sizing.simulation.demand import Demand
from tritonstack_sizing.simulation.serving import TICK_S, ServiceCurve
from tritonstack_sizing.simulation.simulation import ScalingRun

Settings = Mapping[str, object]
"""Keys of `scaling` in an environment file; None removes a key."""
Evaluate = Callable[[Settings], ScalingRun | None]
"""Simulate the environment's scaling with some keys changed; None if the result would be invalid."""

_UTILIZATIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_CONCURRENCIES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Targets relative to the slots of an instance."""
_BACKLOGS = (1, 2, 5, 10, 20, 50, 100)
_METRICS = (
    "invocations_per_instance",
    "concurrent_requests_per_model",
    "backlog_per_instance",
    "gpu_utilization_percent",
    "steps",
)
_SCHEDULED = 3
_LEAD_H = 0.5
"""How long before its peak a schedule adds instances."""
_HOURS = 24
_DAY_S = 86_400.0
_PEAK_UTILIZATION = 0.6
_NEARLY = 1.01
"""Costs within 1 % count as equal."""


@dataclass(frozen=True)
class ScalingObjective:
    """What a policy must hold over the whole load."""

    p99_ms: float | None = None
    lost_share: float = 0.0
    """The highest share of lost requests."""

    def holds(self, run: ScalingRun) -> bool:
        """Whether a result meets it."""
        is_fast = self.p99_ms is None or (run.p99_ms is not None and run.p99_ms <= self.p99_ms)
        return is_fast and run.lost_share <= self.lost_share

    def describe(self) -> str:
        """Return it in the form of the option."""
        latency = "" if self.p99_ms is None else f"p99={_decimal(self.p99_ms):f}ms,"
        lost = f"{_decimal(self.lost_share, times=100):f}%" if self.lost_share else "0"
        return f"{latency}lost={lost}"


@dataclass(frozen=True)
class PolicyProposal:
    """A policy, and what it would do."""

    settings: Settings
    run: ScalingRun


@dataclass
class PolicySearch:
    """A search over metrics, targets, minimums, schedules, steps, and cooldowns."""

    evaluate: Evaluate
    objective: ScalingObjective
    demand: Demand
    curve: ServiceCurve
    current: Mapping[str, object]
    """The present values of `scaling`."""
    is_queued: bool
    """Whether the endpoint is asynchronous."""
    evaluated: int = 0
    _held: list[PolicyProposal] = field(default_factory=list)
    _known: dict[str, ScalingRun | None] = field(default_factory=dict)

    def run(self) -> Sequence[PolicyProposal]:
        """Return all policies that hold the objective, the cheapest first.

        Among policies that cost nearly the same, the one with the fewest changes is first.
        """
        self._tried({})
        self._with_least_minimum({})
        for policy in self._policies():
            self._with_least_minimum(policy)
        self._fixed()
        if self._held:
            self._refine_cooldowns()
        proposals, cheapest = [], min((proposal.run.instance_hours for proposal in self._held), default=0.0)
        for proposal in self._held:
            is_near = proposal.run.instance_hours <= _NEARLY * cheapest
            changes = sum(self.current.get(key) != value for key, value in proposal.settings.items())
            proposals.append((not is_near, changes if is_near else 0, proposal.run.instance_hours, proposal))
        return [proposal for *_, proposal in sorted(proposals, key=lambda item: item[:3])]

    @property
    def most(self) -> int:
        """The most instances that the load can need."""
        peak = float(self._smoothed().max(initial=0.0))
        return max(1, math.ceil(peak / (self.curve.capacity * _PEAK_UTILIZATION)))

    def _policies(self) -> Iterator[Settings]:
        # With a schedule, the metric decides less: a part of the targets suffices.
        daily = list(self._daily())
        for number, policy in enumerate(self._metrics()):
            yield {**policy, "schedules": None}
            if self.current.get("schedules"):
                yield policy
            for schedules in daily if number % _SCHEDULED == 0 else ():
                yield {**policy, **schedules}

    def _metrics(self) -> Iterator[Settings]:
        none: dict[str, object] = dict.fromkeys(_METRICS)
        if self.is_queued:
            yield from ({**none, "backlog_per_instance": value} for value in _BACKLOGS)
            return
        for share in _UTILIZATIONS:
            target = _rounded(share * self.curve.capacity * 60)
            yield {**none, "invocations_per_instance": max(1, int(target))}
        for times in _CONCURRENCIES:
            yield {**none, "concurrent_requests_per_model": _rounded(max(1.0, times * self.curve.slots))}
        # Slow and steady by requests, and two fast steps when queues grow.
        slots = self.curve.slots
        steps = {
            "metric": "concurrent_requests_per_model",
            "scale_out": [
                {"above": 4 * slots, "add": max(1, self.most // 4)},
                {"above": 16 * slots, "add": max(2, self.most // 2)},
            ],
            "scale_in": {"below": 1},
        }
        for share in (0.8, 0.6):
            target = max(1, int(_rounded(share * self.curve.capacity * 60)))
            yield {**none, "invocations_per_instance": target, "steps": steps}

    def _with_least_minimum(self, policy: Settings) -> None:
        """Find the lowest minimum with which a policy holds the objective, by bisection."""
        lowest, highest = self._lowest(), self.most
        if (cheapest := self._tried(self._limited(policy, lowest))) is None:
            return
        if self.objective.holds(cheapest):
            return
        if self._held and cheapest.instance_hours >= min(
            proposal.run.instance_hours for proposal in self._held
        ):
            return  # a higher minimum only costs more
        while highest - lowest > 1:
            middle = (lowest + highest) // 2
            run = self._tried(self._limited(policy, middle))
            if run is not None and self.objective.holds(run):
                highest = middle
            else:
                lowest = middle
        self._tried(self._limited(policy, highest))

    def _lowest(self) -> int:
        """The lowest minimum to try: 0 only if the present policy allows it."""
        return min(1, int(str(self.current["min_instances"])))

    def _limited(self, policy: Settings, minimum: int) -> Settings:
        present = int(str(self.current["max_instances"]))
        maximum = max(minimum, present if present >= self.most else self.most)
        schedules = policy.get("schedules")
        if not isinstance(schedules, dict):
            return {**policy, "min_instances": minimum, "max_instances": maximum}
        base = min(self._lowest() or 1, minimum)
        day, night = ({**schedules[name], "max": maximum} for name in ("day", "night"))
        return {
            **policy,
            "min_instances": base,
            "max_instances": maximum,
            "schedules": {"day": {**day, "min": minimum}, "night": {**night, "min": base}},
        }

    def _fixed(self) -> None:
        """Find the lowest fixed number of instances; its metrics stay, without effect."""
        lowest, highest = 1, self.most + 1
        while lowest < highest:
            middle = (lowest + highest) // 2
            run = self._tried({"min_instances": middle, "max_instances": middle, "schedules": None})
            if run is not None and self.objective.holds(run):
                highest = middle
            else:
                lowest = middle + 1

    def _refine_cooldowns(self) -> None:
        best = min(self._held, key=lambda proposal: proposal.run.instance_hours)
        for out_s in (0, 60, 300):
            for in_s in (0, 60, 300, 600):
                self._tried({**best.settings, "scale_out_cooldown_s": out_s, "scale_in_cooldown_s": in_s})

    def _daily(self) -> Iterator[Settings]:
        """Yield schedules for the busy hours, if the load shows a day with a pattern."""
        if self.demand.seconds < 0.8 * _DAY_S:
            return
        hours = self._by_hour()
        for share in (0.5, 0.7):
            busy = hours > share * hours.max()
            if busy.all():
                continue
            first, last = _longest_stretch(busy)
            begin = (first - _LEAD_H) % _HOURS
            at = f"{int(begin):02}:{round(begin % 1 * 60):02}"
            yield {
                "schedules": {
                    "day": {"at": at, "timezone": "UTC"},
                    "night": {"at": f"{last % _HOURS:02}:00", "timezone": "UTC"},
                }
            }

    def _by_hour(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The highest rate of each hour of the day, in UTC."""
        begin = self.demand.begin.astimezone(UTC)
        seconds = begin.hour * 3600 + begin.minute * 60 + begin.second
        hour = ((np.arange(len(self.demand.counts)) * TICK_S + seconds) / 3600).astype(np.int64) % _HOURS
        rates = np.zeros(_HOURS)
        np.maximum.at(rates, hour, self._smoothed())
        return rates

    def _smoothed(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The rate of each tick, averaged over a minute."""
        width = min(6, len(self.demand.counts))
        return np.convolve(self.demand.counts, np.ones(width), mode="same") / (width * TICK_S)

    def _tried(self, settings: Settings) -> ScalingRun | None:
        key = repr(sorted(settings.items()))
        if key not in self._known:
            self.evaluated += 1
            run = self._known[key] = self.evaluate(settings)
            if run is not None and self.objective.holds(run):
                self._held.append(PolicyProposal(settings, run))
        return self._known[key]


def _decimal(value: float, *, times: int = 1) -> Decimal:
    """Return the shortest decimal number of a float, times a number, without trailing zeros."""
    return (Decimal(repr(value)) * times).normalize()


def _longest_stretch(busy: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[int, int]:
    """Return the begin and end (exclusive) of the longest run of true hours around the clock."""
    best = (0, 0)
    for begin in range(_HOURS):
        length = 0
        while length < _HOURS and busy[(begin + length) % _HOURS]:
            length += 1
        if length > best[1] - best[0]:
            best = (begin, begin + length)
    return best


def _rounded(value: float) -> float:
    """Return a number with two digits, as people write targets."""
    rounded = float(f"{value:.2g}")
    return int(rounded) if rounded == int(rounded) else rounded
