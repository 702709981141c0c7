"""Carry out updates: replace a fleet in the steps of a rollout, and roll back if an alarm rings."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudwatch.moto_alarms import find_alarm
from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.hosting.fleet import Fleet, TrafficSplit
from tritonstack_local.sagemaker.hosting.supply import CloudEndingError, InstanceSupply, LaunchFailedError
from tritonstack_local.sagemaker.records import StageStatus, UpdateStage, now
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ReplyError, validation_exception

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


# Poll interval of alarms, in real seconds.
_POLL_S = 0.25

log = logging.getLogger(__name__)


class UpdateFailedError(ReplyError):
    """An update must be rolled back; the message is the endpoint's FailureReason."""


@dataclass(kw_only=True)
class Update:
    """One update of an endpoint from its current fleet to a new one."""

    scope: Scope
    rollout: Rollout
    traffic: TrafficSplit
    fleet: Fleet
    supply: InstanceSupply
    dependencies: Dependencies
    closing: threading.Event
    report: Callable[[UpdateStage], None]
    """Called with each stage."""
    spent_s: float = 0.0
    """The elapsed time as on AWS: waits count in full."""

    def carry_out(self) -> None:
        """Replace the old fleet by the new one, or raise UpdateFailedError or LaunchFailedError."""
        self._firing_alarms()
        old = self.traffic.fleet
        self.traffic.announce(self.fleet)
        for step in self.rollout.steps:
            self._grow(step)
            self._say("ActivatingTraffic", step.active, f"Activating traffic on {_capacity(step)}.")
            self.traffic.shift(step.share)
            self._bake(step)
            if step is not self.rollout.steps[-1]:
                self.supply.shrink(old, step.old)
        self.traffic.complete()
        self._say("Deleting", _present(old), "Terminating {count} instance(s).")
        self.supply.retire(old)

    def roll_back(self, old: Counts) -> None:
        """Restore the old fleet's instances, batch by batch, and its traffic."""
        running = max(1, sum(_present(self.traffic.fleet).values()))
        total = sum(old.values())
        batch = self.rollout.rollback_batch or total
        for there in [*range(min(running + batch, total), total, batch), total]:
            counts = {name: -(-count * there // total) for name, count in old.items()}
            try:
                self.supply.grow(self.traffic.fleet, counts)
            except LaunchFailedError as failed:
                log.error("the rollback could not restore all instances of the old fleet: %s", failed.message)
                break
            self.traffic.shift(min(self.traffic.share, 1 - there / total))
        self.traffic.withdraw()
        self.supply.retire(self.fleet)

    def _firing_alarms(self) -> list[str]:
        """Return the rollout's alarms that are in the ALARM state; a missing alarm is an error."""
        alarms = {name: find_alarm(self.scope, name) for name in self.rollout.alarms}
        missing = [name for name, alarm in alarms.items() if alarm is None]
        if missing:
            raise UpdateFailedError(
                f"The alarms of the auto-rollback configuration do not exist: {', '.join(missing)}. Create "
                "them, or name others."
            )
        return [name for name, alarm in alarms.items() if alarm is not None and alarm.state == "ALARM"]

    def _grow(self, step: RolloutStep) -> None:
        present = _present(self.fleet)
        missing = {name: count - present[name] for name, count in step.new.items()}
        if not any(count > 0 for count in missing.values()):
            return
        self._say("Creating", missing, "Launching {count} instance(s).")
        began = time.monotonic()
        self.supply.grow(self.fleet, step.new)
        self._spend(time.monotonic() - began)

    def _bake(self, step: RolloutStep) -> None:
        """Monitor the alarms for the step's duration, at least once."""
        if step.wait_s:
            text = f"Baking for {step.wait_s} seconds ({step.wait_name}) with traffic enabled on "
            self._say("Baking", step.active, f"{text}{_capacity(step)}.")
        ends = time.monotonic() + self.dependencies.time_scale.lasting(step.wait_s)
        while (left_s := ends - time.monotonic()) > 0:
            self._check_alarms()
            if self.closing.wait(min(left_s, _POLL_S)):
                raise CloudEndingError("The local cloud is stopping.")
        self._check_alarms()
        self._spend(step.wait_s)

    def _check_alarms(self) -> None:
        firing_alarms = self._firing_alarms()
        if firing_alarms:
            raise UpdateFailedError(
                "The deployment was rolled back, because CloudWatch alarms of its auto-rollback "
                f"configuration are in the ALARM state: {', '.join(firing_alarms)}."
            )

    def _spend(self, seconds: float) -> None:
        self.spent_s += seconds
        limit_s = self.rollout.limit_s
        if limit_s is not None and self.spent_s > limit_s:
            raise UpdateFailedError(
                f"The deployment did not end within MaximumExecutionTimeoutInSeconds, {limit_s} s."
            )

    def _say(self, status: StageStatus, counts: Mapping[str, int], message: str) -> None:
        messages = {name: message.format(count=count) for name, count in counts.items()}
        self.report(UpdateStage(status, messages, now()))


def _capacity(step: RolloutStep) -> str:
    part = "full capacity" if step.portion == "full" else f"{step.portion} capacity"
    return f"{part} of {{count}} instance(s)"


def _present(fleet: Fleet) -> dict[str, int]:
    return {name: len(pool.instances) for name, pool in fleet.pools.items()}
