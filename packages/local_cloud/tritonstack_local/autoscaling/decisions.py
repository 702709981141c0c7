"""Decide the new capacity of a scalable target, without clock or store.

The rules follow AWS's user guide (tritonstack/facts/scaling_rules.py). It does not document:

* which datapoint target tracking uses: here the newest to scale out, the alarm's highest one to scale in
* the rounding: here up, so that a scale-in never brings the metric back above the target
* whether a scale-out cooldown blocks a scale-in: here it does
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from tritonstack.facts.scaling_rules import DEFAULT_COOLDOWN_S, STEP_AGGREGATES, step_covers
from tritonstack_local.autoscaling.records import TRACKING, Cooldown, PolicyRecord

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


ReadAlarm = Callable[[str], AlarmReading | None]
"""Reads an alarm by name; None if it does not exist."""
Triggered = tuple[PolicyRecord, str]
"""A policy and the alarm that triggered it."""


def proposals_of(
    triggered: Iterable[Triggered], tracking: Sequence[PolicyRecord], read: ReadAlarm, situation: Situation
) -> Iterator[CapacityProposal]:
    """Yield what triggered policies ask for; `tracking` are all target tracking policies of the target."""
    scales_in = False
    for policy, alarm in triggered:
        reading = read(alarm)
        if policy.kind == TRACKING and alarm == policy.low:
            scales_in = True
        elif reading is not None and reading.values:
            yield from _proposal(policy, reading, situation)
    if scales_in:
        yield from _scale_in_proposals(tracking, read, situation)


def _proposal(
    policy: PolicyRecord, reading: AlarmReading, situation: Situation
) -> Iterator[CapacityProposal]:
    configuration = policy.configuration
    if policy.kind == TRACKING:
        capacities = [
            tracked(base, reading.values[0], configuration["TargetValue"])
            for base in (situation.capacity, situation.base)
        ]
    else:
        steps = [stepped(base, reading, configuration) for base in (situation.capacity, situation.base)]
        capacities = [step for step in steps if step is not None]
    if capacities:
        yield _made(policy, reading, capacities)


def _scale_in_proposals(
    tracking: Sequence[PolicyRecord], read: ReadAlarm, situation: Situation
) -> Iterator[CapacityProposal]:
    """Yield the largest capacity that the tracking policies allow, if all of them are ready to scale in."""
    ready: list[CapacityProposal] = []
    for policy in tracking:
        if policy.low is None:  # its scale-in is disabled
            continue
        reading = read(policy.low)
        if reading is None or reading.state != "ALARM" or not reading.values:
            return
        capacity = tracked(situation.capacity, max(reading.values), policy.configuration["TargetValue"])
        ready.append(_made(policy, reading, [min(capacity, situation.capacity)] * 2, scales_in=True))
    if ready:
        yield max(ready, key=lambda proposal: proposal.capacity)


def _made(
    policy: PolicyRecord, reading: AlarmReading, capacities: list[int], *, scales_in: bool = False
) -> CapacityProposal:
    configuration = policy.configuration
    both = configuration.get("Cooldown", DEFAULT_COOLDOWN_S)
    return CapacityProposal(
        policy=policy.name,
        alarm=reading.name,
        state=reading.state,
        capacity=capacities[0],
        counted=capacities[-1],
        cooldown_out_s=configuration.get("ScaleOutCooldown", both),
        cooldown_in_s=configuration.get("ScaleInCooldown", both),
        scales_in=scales_in,
    )
