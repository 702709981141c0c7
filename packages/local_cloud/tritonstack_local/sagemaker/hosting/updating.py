"""Look up rollback alarms and scalable targets before and during an update."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.sagemaker.hosting.capacity import CloudEndingError, InstanceSupply
from tritonstack_local.sagemaker.hosting.deployment import LaunchFailedError
from tritonstack_local.sagemaker.hosting.fleet import Fleet, TrafficSplit
from tritonstack_local.sagemaker.hosting.rollouts import Counts, Rollout, RolloutStep
from tritonstack_local.sagemaker.records import StageStatus, UpdateStage, now
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ReplyError
from tritonstack_local.settings import TimeScale

ReadAlarms = Callable[[Scope, Sequence[str]], dict[str, str]]
"""Returns the states of the named alarms of a scope; missing alarms are omitted."""


def alarm_states_from(clients: Clients) -> ReadAlarms:
    """Return lookups in this cloud's CloudWatch."""

    def read(scope: Scope, names: Sequence[str]) -> dict[str, str]:
        if not names:
            return {}
        response = clients.client("cloudwatch", scope).describe_alarms(
            AlarmNames=list(names), AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        alarms = [*response.get("MetricAlarms", []), *response.get("CompositeAlarms", [])]
        return {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}

    return read


IsScaled = Callable[[Scope, str, str], bool]
"""Returns whether a variant is a scalable target: scope, endpoint, variant."""


def scalable_targets_from(clients: Clients) -> IsScaled:
    """Return lookups in this cloud's Application Auto Scaling."""

    def is_scaled(scope: Scope, endpoint: str, variant: str) -> bool:
        autoscaling = clients.client("application-autoscaling", scope)
        targets = autoscaling.describe_scalable_targets(
            ServiceNamespace="sagemaker",
            ResourceIds=[f"endpoint/{endpoint}/variant/{variant}"],
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        )
        return bool(targets["ScalableTargets"])

    return is_scaled


# Poll interval of alarms, in real seconds.
_POLL_S = 0.25

log = logging.getLogger(__name__)


class UpdateFailedError(ReplyError):
    """An update must be rolled back; the message is the endpoint's FailureReason."""


@dataclass(frozen=True)
class UpdateServices:
    """Services used by all updates."""

    supply: InstanceSupply
    time_scale: TimeScale
    read_alarms: ReadAlarms
    closing: threading.Event


class Update:
    """One update. `on_stage` is called with each stage."""

    def __init__(
        self,
        *,
        scope: Scope,
        rollout: Rollout,
        traffic: TrafficSplit,
        fleet: Fleet,
        means: UpdateServices,
        on_stage: Callable[[UpdateStage], None],
    ) -> None:
        self._scope = scope
        self._rollout = rollout
        self._traffic = traffic
        self._fleet = fleet
        self._means = means
        self._on_stage = on_stage
        self._spent_s = 0.0

    def carry_out(self) -> None:
        """Replace the old fleet by the new one, or raise UpdateFailedError or LaunchFailedError."""
        self._existing_alarms()
        old = self._traffic.fleet
        self._traffic.announce(self._fleet)
        for step in self._rollout.steps:
            self._grow(step)
            self._say("ActivatingTraffic", step.active, f"Activating traffic on {_capacity(step)}.")
            self._traffic.shift(step.share)
            self._bake(step)
            if step is not self._rollout.steps[-1]:
                self._means.supply.shrink(old, step.old)
        self._traffic.complete()
        self._say("Deleting", _present(old), "Terminating {count} instance(s).")
        self._means.supply.retire(old)

    def roll_back(self, old: Counts) -> None:
        """Restore the old fleet's instances, batch by batch, and its traffic."""
        running = max(1, sum(_present(self._traffic.fleet).values()))
        total = sum(old.values())
        batch = self._rollout.rollback_batch or total
        for there in [*range(min(running + batch, total), total, batch), total]:
            counts = {name: -(-count * there // total) for name, count in old.items()}
            try:
                self._means.supply.grow(self._traffic.fleet, counts)
            except LaunchFailedError as failed:
                log.error("the rollback could not restore all instances of the old fleet: %s", failed.message)
                break
            self._traffic.shift(min(self._traffic.share, 1 - there / total))
        self._traffic.withdraw()
        self._means.supply.retire(self._fleet)

    def _existing_alarms(self) -> dict[str, str]:
        """Return the states of the rollout's alarms; a missing alarm is an error."""
        states = self._states()
        missing = [name for name in self._rollout.alarms if name not in states]
        if missing:
            raise UpdateFailedError(
                f"The alarms of the auto-rollback configuration do not exist: {', '.join(missing)}. Create "
                "them, or name others."
            )
        return states

    def _grow(self, step: RolloutStep) -> None:
        missing = {name: count - self._there(name) for name, count in step.new.items()}
        if not any(count > 0 for count in missing.values()):
            return
        self._say("Creating", missing, "Launching {count} instance(s).")
        began = time.monotonic()
        self._means.supply.grow(self._fleet, step.new)
        self._spend(time.monotonic() - began)

    def _there(self, variant: str) -> int:
        return len(self._fleet.pools[variant].instances)

    def _bake(self, step: RolloutStep) -> None:
        """Monitor the alarms for the step's duration, at least once."""
        if step.wait_s:
            text = f"Baking for {step.wait_s} seconds ({step.wait_name}) with traffic enabled on "
            self._say("Baking", step.active, f"{text}{_capacity(step)}.")
        ends = time.monotonic() + self._means.time_scale.lasting(step.wait_s)
        while (left_s := ends - time.monotonic()) > 0:
            self._check_alarms()
            if self._means.closing.wait(min(left_s, _POLL_S)):
                raise CloudEndingError("The local cloud is stopping.")
        self._check_alarms()
        self._spend(step.wait_s)

    def _check_alarms(self) -> None:
        states = self._existing_alarms()
        firing_alarms = [name for name in self._rollout.alarms if states[name] == "ALARM"]
        if firing_alarms:
            raise UpdateFailedError(
                "The deployment was rolled back, because CloudWatch alarms of its auto-rollback "
                f"configuration are in the ALARM state: {', '.join(firing_alarms)}."
            )

    def _states(self) -> dict[str, str]:
        try:
            return self._means.read_alarms(self._scope, self._rollout.alarms)
        except (ClientError, BotoCoreError) as error:
            raise UpdateFailedError(
                f"The alarms of the auto-rollback configuration could not be read: {error}"
            ) from error

    def _spend(self, seconds: float) -> None:
        """Return the elapsed time as on AWS: waits count in full."""
        self._spent_s += seconds
        limit_s = self._rollout.limit_s
        if limit_s is not None and self._spent_s > limit_s:
            raise UpdateFailedError(
                f"The deployment did not end within MaximumExecutionTimeoutInSeconds, {limit_s} s."
            )

    def _say(self, status: StageStatus, counts: Mapping[str, int], message: str) -> None:
        messages = {name: message.format(count=count) for name, count in counts.items()}
        self._on_stage(UpdateStage(status, messages, now()))


def _capacity(step: RolloutStep) -> str:
    part = "full capacity" if step.portion == "full" else f"{step.portion} capacity"
    return f"{part} of {{count}} instance(s)"


def _present(fleet: Fleet) -> dict[str, int]:
    return {name: len(pool.instances) for name, pool in fleet.pools.items()}
