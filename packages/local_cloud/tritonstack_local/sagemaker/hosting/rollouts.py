"""Compute the steps of a deployment configuration; nothing here waits, starts, or stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.service.faults import validation_exception

Counts = Mapping[str, int]
"""Instances by variant."""

# Field -> the percentages that SageMaker takes for it.
_PERCENTAGES = {"CanarySize": (1, 50), "LinearStepSize": (10, 50), "MaximumBatchSize": (5, 50)}


@dataclass(frozen=True)
class RolloutStep:
    """One step: so many new instances are there, some take traffic, and all is watched a while."""

    new: Counts
    """Instances of the new fleet that exist in this step."""
    active: Counts
    """Those that stand for the traffic that it takes."""
    old: Counts
    """Instances of the old fleet that are left after it."""
    wait_s: int
    wait_name: str
    """The setting that says how long, as messages name it."""
    portion: str
    """What the instances that take traffic are: canary, linear step, batch or full."""
    share: float
    """The part of the traffic that the new fleet takes."""


@dataclass(frozen=True)
class Rollout:
    """An update's way from one fleet to another."""

    steps: tuple[RolloutStep, ...]
    alarms: tuple[str, ...]
    """The alarms that take it back."""
    limit_s: int | None
    """How long it may take in all, as AWS counts."""
    rollback_batch: int | None
    """How many instances of the old fleet come back at once; all of them if None."""


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
    """Refuse what SageMaker refuses of a deployment configuration for so many instances."""
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
    """Blue/green: the new fleet is there as a whole, and its traffic grows."""
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
    """Return the instances that take traffic before all do."""
    if routing["Type"] == "CANARY":
        yield {name: _instances(routing["CanarySize"], count) for name, count in new.items()}
    elif routing["Type"] == "LINEAR":
        sizes = {name: _instances(routing["LinearStepSize"], count) for name, count in new.items()}
        for number in range(1, max(-(-new[name] // size) for name, size in sizes.items())):
            yield {name: min(new[name], number * size) for name, size in sizes.items()}


def _batches(policy: Mapping[str, Any], new: Counts, old: Counts) -> Iterator[RolloutStep]:
    """Rolling: a batch of new instances takes the place of as many old ones."""
    ((variant, count),) = new.items()
    size = _instances(policy["MaximumBatchSize"], count)
    for number in range(1, -(-count // size) + 1):
        there = min(count, number * size)
        yield RolloutStep(
            new={variant: there},
            active={variant: there},
            # Rounded up: as long as the old fleet gets traffic it has an instance.
            old={name: -(-before * (count - there) // count) for name, before in old.items()},
            wait_s=policy["WaitIntervalInSeconds"],
            wait_name="WaitIntervalInSeconds",
            portion="batch",
            share=there / count,
        )


def _instances(size: Mapping[str, Any], count: int) -> int:
    """A part of a variant's instances, at least one."""
    part: int = size["Value"]
    if size["Type"] == "CAPACITY_PERCENT":
        part = count * part // 100
    return max(1, min(count, part))


def _share(active: Counts, new: Counts) -> float:
    return sum(active.values()) / sum(new.values())
