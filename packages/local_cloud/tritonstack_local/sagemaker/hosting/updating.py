"""Carry out updates: replace a fleet in the steps of a rollout, and roll back if an alarm rings."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack_local.sagemaker.dependencies import Dependencies
from tritonstack_local.sagemaker.hosting.fleet import Fleet, TrafficSplit
from tritonstack_local.sagemaker.hosting.rollouts import Counts, Rollout, RolloutStep
from tritonstack_local.sagemaker.hosting.supply import CloudEndingError, InstanceSupply, LaunchFailedError
from tritonstack_local.sagemaker.records import StageStatus, UpdateStage, now
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ReplyError


def alarm_states(clients: Clients, scope: Scope, names: Sequence[str]) -> dict[str, str]:
    """Return the states of alarms in this cloud's CloudWatch; missing ones are omitted."""
    if not names:
        return {}
    response = clients.client("cloudwatch", scope).describe_alarms(AlarmNames=list(names))
    return {alarm["AlarmName"]: alarm["StateValue"] for alarm in response["MetricAlarms"]}


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
        self._existing_alarms()
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

    def _existing_alarms(self) -> dict[str, str]:
        """Return the states of the rollout's alarms; a missing alarm is an error."""
        try:
            states = alarm_states(self.dependencies.clients, self.scope, self.rollout.alarms)
        except (ClientError, BotoCoreError) as error:
            raise UpdateFailedError(
                f"The alarms of the auto-rollback configuration could not be read: {error}"
            ) from error
        missing = [name for name in self.rollout.alarms if name not in states]
        if missing:
            raise UpdateFailedError(
                f"The alarms of the auto-rollback configuration do not exist: {', '.join(missing)}. Create "
                "them, or name others."
            )
        return states

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
        states = self._existing_alarms()
        firing_alarms = [name for name in self.rollout.alarms if states[name] == "ALARM"]
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
