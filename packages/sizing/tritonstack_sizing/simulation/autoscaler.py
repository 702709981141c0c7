"""Application Auto Scaling: from ticks to the number of instances that it asks for.

This is an implementation of its own: the local cloud has another one, so that each can prove the other. They
share the rule of step adjustments only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tritonstack.constructs.endpoint.scaling_plan import ScalingPlan, Stepping, Tracking
from tritonstack.facts.scaling_rules import (
    HIGH_ALARM,
    LOW_ALARM,
    PREDEFINED_METRICS,
    STEP_AGGREGATES,
    step_covers,
)
from tritonstack_sizing.simulation.serving import TICK_S, TickLoad

Statistic = Callable[[Sequence[TickLoad]], float | None]
"""The value of a period from its ticks; None if there is no data."""


def _per_instance(ticks: Sequence[TickLoad]) -> float | None:
    """Sum of 1/instances for each request. Without traffic, SageMaker publishes zeros."""
    return sum(tick.requests / max(1, tick.instances) for tick in ticks)


def _concurrency(ticks: Sequence[TickLoad]) -> float | None:
    return max(tick.concurrency for tick in ticks)


def _utilization(ticks: Sequence[TickLoad]) -> float | None:
    measured = [tick.busy for tick in ticks if tick.instances]
    return 100 * sum(measured) / len(measured) if measured else None


def _backlog(ticks: Sequence[TickLoad]) -> float | None:
    measured = [tick.backlog / tick.instances for tick in ticks if tick.instances]
    return sum(measured) / len(measured) if measured else None


def _without_capacity(ticks: Sequence[TickLoad]) -> float | None:
    return max(float(tick.backlog > 0 and not tick.instances) for tick in ticks)


def _failures(ticks: Sequence[TickLoad]) -> float | None:
    return float(sum(tick.unserved for tick in ticks if not tick.instances))


STATISTICS: Mapping[str, Statistic] = {
    "InvocationsPerInstance": _per_instance,
    "InvocationsPerCopy": _per_instance,
    "ConcurrentRequestsPerModel": _concurrency,
    "ConcurrentRequestsPerCopy": _concurrency,
    "CPUUtilization": _utilization,
    "GPUUtilization": _utilization,
    "CPUUtilizationNormalized": _utilization,
    "GPUUtilizationNormalized": _utilization,
    "ApproximateBacklogSizePerInstance": _backlog,
    "HasBacklogWithoutCapacity": _without_capacity,
    "NoCapacityInvocationFailures": _failures,
}
"""CloudWatch metrics that policies may follow."""


_ACTION_S = 60.0
"""CloudWatch repeats the action of a scaling alarm once per minute while it stays on."""


@dataclass(frozen=True)
class Wanted:
    """A change that scaling asks for."""

    instances: int
    cause: str


@dataclass
class _Alarm:
    """One alarm: on if the last datapoints all breach."""

    metric: str
    period_s: float
    datapoints: int
    breaches: Callable[[float], bool]
    units: float = 1.0
    """What the metric of a full instance is in units of its utilization."""
    values: deque[float | None] = field(default_factory=deque)
    next_action: float = -math.inf
    _waiting: deque[tuple[float, float | None]] = field(default_factory=deque)
    """Datapoints that are not published yet, with the time when they are."""
    _ticks: list[TickLoad] = field(default_factory=list)
    _breaching: int = 0
    """Datapoints since the last one that does not breach."""

    def add(self, load: TickLoad, delay_s: float) -> None:
        """Take one tick; each full period becomes a datapoint."""
        self._ticks.append(load)
        end = load.begin + TICK_S
        if len(self._ticks) * TICK_S >= self.period_s:
            value = STATISTICS[self.metric](self._ticks)
            self._waiting.append((end + delay_s, None if value is None else value * self.units))
            self._ticks.clear()

    def publish(self, now: float) -> None:
        """Evaluate the datapoints that are available."""
        while self._waiting and self._waiting[0][0] <= now:
            value = self._waiting.popleft()[1]
            self.values.append(value)
            self._breaching = self._breaching + 1 if value is not None and self.breaches(value) else 0
            if len(self.values) > self.datapoints:
                self.values.popleft()
        if not self.is_on:
            self.next_action = -math.inf

    @property
    def is_on(self) -> bool:
        """Whether the last datapoints all breach."""
        return self._breaching >= self.datapoints

    @property
    def last(self) -> float:
        """The latest value, or 0."""
        return (self.values[-1] if self.values else 0.0) or 0.0

    @property
    def known(self) -> Sequence[float]:
        """The evaluated values."""
        return [value for value in self.values if value is not None]

    @property
    def highest(self) -> float:
        """The highest value."""
        return max((value or 0.0 for value in self.values), default=0.0)

    def acts(self, now: float) -> bool:
        """Whether the alarm invokes its policy now."""
        if not self.is_on or now < self.next_action:
            return False
        self.next_action = now + _ACTION_S
        return True


@dataclass(kw_only=True, eq=False)
class _Policy:
    """What all policies have."""

    name: str
    out_cooldown_s: float
    in_cooldown_s: float


@dataclass(kw_only=True, eq=False)
class _TrackingPolicy(_Policy):
    target: float
    high: _Alarm
    low: _Alarm

    def proportional(self, value: float, current: int) -> int:
        return math.ceil(round(current * value / self.target, 9))


@dataclass(kw_only=True, eq=False)
class _StepPolicy(_Policy):
    alarm: _Alarm
    plan: Stepping

    def change(self) -> int:
        """Return the change of the step that covers the breach; 0 without datapoints, or if none does."""
        breach, rises = self.breach(), self.plan.alarm.comparison.startswith("Greater")
        if breach is None:
            return 0
        for step in self.plan.adjustments:
            if step_covers(breach, lower=step.lower, upper=step.upper, rises=rises):
                return step.change
        return 0

    def breach(self) -> float | None:
        """Return the mean of the evaluated datapoints, minus the threshold."""
        values = self.alarm.known
        return STEP_AGGREGATES["Average"](values) - self.plan.alarm.threshold if values else None


@dataclass(frozen=True)
class _Activity:
    """A change of the instance count by a policy."""

    policy: _Policy
    before: int
    is_out: bool


class Autoscaler:
    """The policies of one scalable target."""

    def __init__(self, plan: ScalingPlan, *, units: Mapping[str, float], delay_periods: float = 1.0) -> None:
        self._plan = plan
        self._units = units
        self._delay_periods = delay_periods
        """How long CloudWatch takes to publish a metric, in periods of the metric."""
        self._tracking = [self._tracked(tracked) for tracked in plan.tracked]
        self._stepping = [self._stepped(stepped) for stepped in plan.stepped]
        self._alarms = [
            *(alarm for policy in self._tracking for alarm in (policy.high, policy.low)),
            *(policy.alarm for policy in self._stepping),
        ]
        self._acting: _Activity | None = None
        """The change of a policy that is in progress."""
        self._cooldown: tuple[_Activity, float] | None = None
        """The last change that has succeeded, and the end of its cooldown."""

    def observe(self, load: TickLoad) -> None:
        """Take the metrics of a tick."""
        for alarm in self._alarms:
            alarm.add(load, self._delay_periods * alarm.period_s)

    def decide(
        self, now: float, current: int, *, limits: tuple[int, int], is_updating: bool
    ) -> Wanted | None:
        """Return the change to ask for; an endpoint that is updating accepts none."""
        for alarm in self._alarms:
            alarm.publish(now)
        larger = [proposal for proposal in self._out(now, current) if proposal[0] > current]
        smaller = [proposal for proposal in self._in(now, current) if proposal[0] < current]
        if is_updating or not (larger or smaller):
            return None
        # A scale-out goes before a scale-in, even if the maximum leaves no room for it.
        count, policy = max(larger or smaller, key=lambda proposal: proposal[0])
        lowest, highest = limits
        bounded = min(highest, count) if larger else max(lowest, count)
        if bounded == current:
            return None
        self._acting = _Activity(policy, current, is_out=bool(larger))
        return Wanted(bounded, policy.name)

    def completed(self, now: float) -> None:
        """Start the cooldown of the policy whose change has succeeded; a change of limits has none."""
        acting, self._acting = self._acting, None
        if acting is not None:
            policy = acting.policy
            lasts = policy.out_cooldown_s if acting.is_out else policy.in_cooldown_s
            self._cooldown = acting, now + lasts

    def failed(self) -> None:
        """Forget the change in progress: without success, there is no cooldown."""
        self._acting = None

    def _cooling(self, now: float) -> _Activity | None:
        """Return the change whose cooldown is in effect."""
        cooldown = self._cooldown
        return None if cooldown is None or now >= cooldown[1] else cooldown[0]

    def _out(self, now: float, current: int) -> Iterator[tuple[int, _Policy]]:
        # In a cooldown, what was added counts towards a larger scale-out.
        cooling = self._cooling(now)
        basis = cooling.before if cooling is not None and cooling.is_out else current
        for tracked in self._tracking:
            if tracked.high.acts(now):
                yield tracked.proportional(tracked.high.last, basis), tracked
        for stepped in self._stepping:
            change = stepped.change()
            if change > 0 and stepped.alarm.acts(now):
                yield basis + change, stepped

    def _in(self, now: float, current: int) -> Iterator[tuple[int, _Policy]]:
        acting = [policy for policy in self._tracking if policy.low.acts(now)]
        if self._cooling(now) is not None:
            return
        # Target tracking removes capacity only if all its policies agree. Which datapoint counts is not
        # documented: the highest, so that no recent load brings the metric above the target again.
        if acting and all(policy.low.is_on for policy in self._tracking):
            yield (
                max(policy.proportional(policy.low.highest, current) for policy in self._tracking),
                acting[0],
            )
        for stepped in self._stepping:
            change = stepped.change()
            if change < 0 and stepped.alarm.acts(now):
                yield current + change, stepped

    def _tracked(self, tracked: Tracking) -> _TrackingPolicy:
        predefined = PREDEFINED_METRICS[tracked.predefined] if tracked.predefined else None
        name = predefined.name if predefined else tracked.metric.name if tracked.metric else ""
        high, low = (predefined.high, predefined.low) if predefined else (HIGH_ALARM, LOW_ALARM)
        upper, lower = tracked.target * high.factor, tracked.target * low.factor
        return _TrackingPolicy(
            name=f"{tracked.measure} {tracked.target:g}",
            out_cooldown_s=self._plan.scaling.scale_out_cooldown_s,
            in_cooldown_s=self._plan.scaling.scale_in_cooldown_s,
            target=tracked.target,
            high=self._alarm(name, high.period_s, high.datapoints, lambda value: value > upper),
            low=self._alarm(name, low.period_s, low.datapoints, lambda value: value < lower),
        )

    def _stepped(self, stepped: Stepping) -> _StepPolicy:
        plan = stepped.alarm
        (series,) = plan.series.values()
        tests: dict[str, Callable[[float], bool]] = {
            "GreaterThanOrEqualToThreshold": lambda value: value >= plan.threshold,
            "GreaterThanThreshold": lambda value: value > plan.threshold,
            "LessThanThreshold": lambda value: value < plan.threshold,
        }
        return _StepPolicy(
            name=stepped.id,
            out_cooldown_s=stepped.cooldown_s,
            in_cooldown_s=stepped.cooldown_s,
            alarm=self._alarm(series.metric.name, plan.period_s, plan.periods, tests[plan.comparison]),
            plan=stepped,
        )

    def _alarm(
        self, metric: str, period_s: float, datapoints: int, breaches: Callable[[float], bool]
    ) -> _Alarm:
        return _Alarm(metric, period_s, datapoints, breaches, units=self._units.get(metric, 1.0))
