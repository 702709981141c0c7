"""Turn the alarms that triggered policies into the capacities that the policies ask for, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tritonstack.facts.scaling_rules import DEFAULT_COOLDOWN_S
from tritonstack_local.autoscaling.decisions import (
    AlarmReading,
    CapacityProposal,
    Situation,
    stepped,
    tracked,
)
from tritonstack_local.autoscaling.policies import TRACKING
from tritonstack_local.autoscaling.records import PolicyRecord

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
        yield from _scale_in(tracking, read, situation)


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


def _scale_in(
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
        policy=policy.policy,
        alarm=reading.name,
        state=reading.state,
        capacity=capacities[0],
        counted=capacities[-1],
        cooldown_out_s=configuration.get("ScaleOutCooldown", both),
        cooldown_in_s=configuration.get("ScaleInCooldown", both),
        scales_in=scales_in,
    )
