"""Compute the steps of a deployment configuration; nothing here waits, starts, or stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.service.errors import validation_exception

Counts = Mapping[str, int]
"""Instances by variant."""

# Field -> percentages that SageMaker accepts.
_PERCENTAGES = {"CanarySize": (1, 50), "LinearStepSize": (10, 50), "MaximumBatchSize": (5, 50)}


@dataclass(frozen=True)
class RolloutStep:
    """One step of a rollout: instance counts, traffic, and waiting time."""

    new: Counts
    """Instances of the new fleet that exist in this step."""
    active: Counts
    """New instances that take traffic."""
    old: Counts
    """Remaining instances of the old fleet."""
    wait_s: int
    wait_name: str
    """The setting of the waiting time, for messages."""
    portion: str
    """The kind of step: canary, linear step, batch, or full."""
    share: float
    """The new fleet's fraction of traffic."""


@dataclass(frozen=True)
class Rollout:
    """The steps of an update from one fleet to another."""

    steps: tuple[RolloutStep, ...]
    alarms: tuple[str, ...]
    """The alarms that trigger a rollback."""
    limit_s: int | None
    """Maximum duration, in AWS seconds."""
    rollback_batch: int | None
    """Rollback batch size; None for all at once."""


def plan_rollout(config: Mapping[str, Any] | None, *, new: Counts, old: Counts) -> Rollout:
    """Plan the steps; without a configuration, all traffic moves at once."""
    config = config or {}
    alarms = tuple(
        item["AlarmName"] for item in config.get("AutoRollbackConfiguration", {}).get("Alarms", [])
    )
    if "RollingUpdatePolicy" in config:
        policy = config["RollingUpdatePolicy"]
        rollback = policy.get("RollbackMaximumBatchSize")
        return Rollout(
            steps=tuple(_batches(policy, new, old)),
            alarms=alarms,
            limit_s=policy.get("MaximumExecutionTimeoutInSeconds"),
            rollback_batch=None if rollback is None else _instances(rollback, sum(old.values())),
        )
    policy = config.get("BlueGreenUpdatePolicy", {})
    return Rollout(
        steps=tuple(_shifts(policy, new, old)),
        alarms=alarms,
        limit_s=policy.get("MaximumExecutionTimeoutInSeconds"),
        rollback_batch=None,
    )


def check_rollout(config: Mapping[str, Any] | None, counts: Counts) -> None:
    """Raise SageMaker's errors for a deployment configuration with these instance counts."""
    config = config or {}
    rolling, blue_green = config.get("RollingUpdatePolicy"), config.get("BlueGreenUpdatePolicy")
    if rolling is not None and blue_green is not None:
        raise validation_exception(
            "Only one of BlueGreenUpdatePolicy and RollingUpdatePolicy may be given in DeploymentConfig."
        )
    if rolling is not None:
        if len(counts) > 1:
            raise validation_exception(
                "RollingUpdatePolicy is not supported for endpoints with multiple production variants."
            )
        _check_size("MaximumBatchSize", rolling["MaximumBatchSize"], counts)
    if blue_green is not None:
        _check_routing(blue_green["TrafficRoutingConfiguration"], counts)


def _check_routing(routing: Mapping[str, Any], counts: Counts) -> None:
    kind = routing["Type"]
    for needed, field in (("CANARY", "CanarySize"), ("LINEAR", "LinearStepSize")):
        if kind == needed and field not in routing:
            raise validation_exception(f"{field} must be given for traffic routing of type {kind}.")
        if kind != needed and field in routing:
            raise validation_exception(f"{field} must not be given for traffic routing of type {kind}.")
        if kind == needed:
            _check_size(field, routing[field], counts)


def _check_size(field: str, size: Mapping[str, Any], counts: Counts) -> None:
    least, most = _PERCENTAGES[field]
    if size["Type"] == "CAPACITY_PERCENT" and not least <= size["Value"] <= most:
        raise validation_exception(f"{field} must be between {least}% and {most}% of the variant's capacity.")
    for variant, count in counts.items():
        if 2 * _instances(size, count) > count:
            raise validation_exception(
                f"{field} must be less than or equal to 50% of the total instance count of variant "
                f"{variant}, which has {count} instance(s)."
            )


def _shifts(policy: Mapping[str, Any], new: Counts, old: Counts) -> Iterator[RolloutStep]:
    """Plan blue/green: launch the whole new fleet, then shift traffic."""
    routing = policy.get("TrafficRoutingConfiguration", {"Type": "ALL_AT_ONCE"})
    for active in _parts(routing, new):
        yield RolloutStep(
            new=new,
            active=active,
            old=old,
            wait_s=routing["WaitIntervalInSeconds"],
            wait_name="WaitIntervalInSeconds",
            portion="canary" if routing["Type"] == "CANARY" else "linear step",
            share=_share(active, new),
        )
    yield RolloutStep(
        new=new,
        active=new,
        old=dict.fromkeys(old, 0),
        wait_s=policy.get("TerminationWaitInSeconds", 0),
        wait_name="TerminationWaitInSeconds",
        portion="full",
        share=1.0,
    )


def _parts(routing: Mapping[str, Any], new: Counts) -> Iterator[Counts]:
    """Return the instances of the first traffic steps."""
    if routing["Type"] == "CANARY":
        yield {name: _instances(routing["CanarySize"], count) for name, count in new.items()}
    elif routing["Type"] == "LINEAR":
        sizes = {name: _instances(routing["LinearStepSize"], count) for name, count in new.items()}
        for number in range(1, max(-(-new[name] // size) for name, size in sizes.items())):
            yield {name: min(new[name], number * size) for name, size in sizes.items()}


def _batches(policy: Mapping[str, Any], new: Counts, old: Counts) -> Iterator[RolloutStep]:
    """Plan rolling: replace instances batch by batch."""
    ((variant, count),) = new.items()
    size = _instances(policy["MaximumBatchSize"], count)
    for number in range(1, -(-count // size) + 1):
        there = min(count, number * size)
        yield RolloutStep(
            new={variant: there},
            active={variant: there},
            # Rounded up: the old fleet needs an instance while it gets traffic.
            old={name: -(-before * (count - there) // count) for name, before in old.items()},
            wait_s=policy["WaitIntervalInSeconds"],
            wait_name="WaitIntervalInSeconds",
            portion="batch",
            share=there / count,
        )


def _instances(size: Mapping[str, Any], count: int) -> int:
    """Return a fraction of a variant's instances, at least one."""
    part: int = size["Value"]
    if size["Type"] == "CAPACITY_PERCENT":
        part = count * part // 100
    return max(1, min(count, part))


def _share(active: Counts, new: Counts) -> float:
    return sum(active.values()) / sum(new.values())
