"""Decide the new capacity of a scalable target, without clock or store.

The rules follow AWS's user guide (tritonstack/facts/scaling_rules.py). It does not document:

* which datapoint target tracking uses: here the newest to scale out, the alarm's highest one to scale in
* the rounding: here up, so that a scale-in never brings the metric back above the target
* whether a scale-out cooldown blocks a scale-in: here it does
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from tritonstack.facts.scaling_rules import STEP_AGGREGATES, step_covers
from tritonstack_local.autoscaling.records import Cooldown

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class AlarmReading:
    """The state of an alarm, and the datapoints behind it."""

    name: str
    state: str
    values: tuple[float, ...]
    """Newest first."""
    threshold: float
    rises: bool
    """Whether it compares with > or >=."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a decision depends on, besides the policies."""

    capacity: int
    minimum: int
    maximum: int
    cooldown: Cooldown | None = None
    """None if it has ended."""
    out_suspended: bool = False
    in_suspended: bool = False

    @property
    def base(self) -> int:
        """The capacity that a scale-out counts from: before the one whose cooldown is in effect."""
        cooling = self.cooldown is not None and self.cooldown.direction == "out"
        return self.cooldown.base if cooling and self.cooldown is not None else self.capacity


@dataclass(frozen=True, kw_only=True)
class CapacityProposal:
    """The capacity that one policy asks for."""

    policy: str
    alarm: str
    state: str
    capacity: int
    counted: int
    """The same, counted from the capacity before the scale-out whose cooldown is in effect."""
    cooldown_out_s: float
    cooldown_in_s: float
    scales_in: bool = False
    """Whether it follows a low alarm of target tracking."""


@dataclass(frozen=True)
class ScalingDecision:
    """The proposal to fulfill and its capacity; or, with a reason, why nothing changes."""

    proposal: CapacityProposal
    capacity: int
    reason: Mapping[str, Any] | None = None
    """A NotScaledReason."""


def tracked(capacity: int, value: float, target: float) -> int:
    """Return the capacity at which the metric would be at the target or just below."""
    return ceil(capacity * value / target - _ROUNDING)


def stepped(capacity: int, reading: AlarmReading, configuration: Mapping[str, Any]) -> int | None:
    """Return the capacity after the step that fits the breach; None if none fits."""
    aggregate = STEP_AGGREGATES[configuration.get("MetricAggregationType") or "Average"]
    breach = aggregate(reading.values) - reading.threshold
    for step in configuration.get("StepAdjustments") or ():
        lower, upper = step.get("MetricIntervalLowerBound"), step.get("MetricIntervalUpperBound")
        if step_covers(breach, lower=lower, upper=upper, rises=reading.rises):
            return max(0, capacity + int(step["ScalingAdjustment"]))
    return None


def decide(situation: Situation, proposals: Sequence[CapacityProposal]) -> ScalingDecision | None:
    """Return what to do; None if a cooldown or a suspension delays it, or there is no proposal.

    A scale-out goes before a scale-in; of several, the largest capacity wins.
    """
    outs = [proposal for proposal in proposals if proposal.capacity > situation.capacity]
    if outs:
        return _scale_out(situation, outs)
    ins = [proposal for proposal in proposals if proposal.capacity < situation.capacity]
    if ins:
        return _scale_in(situation, ins)
    if not proposals:
        return None
    code = "AutoScalingAnticipatedFlapping" if proposals[0].scales_in else "AlreadyAtDesiredCapacity"
    return ScalingDecision(
        proposals[0], situation.capacity, {"Code": code, "CurrentCapacity": situation.capacity}
    )


def _scale_out(situation: Situation, proposals: Sequence[CapacityProposal]) -> ScalingDecision | None:
    if situation.out_suspended:
        return None
    cooling = situation.cooldown is not None and situation.cooldown.direction == "out"
    proposal = max(proposals, key=lambda item: item.counted if cooling else item.capacity)
    capacity = proposal.counted if cooling else proposal.capacity
    if capacity <= situation.capacity:
        return None
    if situation.capacity >= situation.maximum:
        reason = {"Code": "AlreadyAtMaxCapacity", "MaxCapacity": situation.maximum}
        return ScalingDecision(proposal, situation.capacity, reason)
    return ScalingDecision(proposal, min(capacity, situation.maximum))


def _scale_in(situation: Situation, proposals: Sequence[CapacityProposal]) -> ScalingDecision | None:
    if situation.in_suspended or situation.cooldown is not None:
        return None
    proposal = max(proposals, key=lambda item: item.capacity)
    if situation.capacity <= situation.minimum:
        reason = {"Code": "AlreadyAtMinCapacity", "MinCapacity": situation.minimum}
        return ScalingDecision(proposal, situation.capacity, reason)
    return ScalingDecision(proposal, max(proposal.capacity, situation.minimum))
