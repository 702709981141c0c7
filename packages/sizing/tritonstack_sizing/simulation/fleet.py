"""The instances of a variant: launching, in service, and billed; capacity errors and rollouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class TimeWindow:
    """A part of the simulated time, in seconds from its begin."""

    begin: float
    end: float

    def covers(self, when: float) -> bool:
        """Whether it contains a time."""
        return self.begin <= when < self.end


@dataclass(frozen=True)
class PlannedUpdate:
    """A rollout: SageMaker runs additional instances until it ends, and rejects scaling meanwhile."""

    at: float
    shifting_s: float
    """Time of traffic shifting and baking, without starts."""
    share: float = 1.0
    """Additional instances as a share of the running ones: all for blue/green, a batch for rolling."""
    batches: int = 1
    """How often additional instances start one after another."""


@dataclass(frozen=True)
class StartTimes:
    """How long capacity takes to arrive; assumptions that no measurement on AWS backs."""

    provisioning_s: float
    """From the request to an instance on which the container starts."""
    loading_s: float
    """Image, download of this artifact, and loading of its models."""
    removal_s: float = 60.0
    """How long the endpoint is updating after a scale-in."""


@dataclass(frozen=True)
class FleetPlan:
    """How units (instances, or copies of an inference component) come and go."""

    times: StartTimes
    no_capacity: Sequence[TimeWindow] = ()
    """When AWS has no capacity: launches fail."""
    updates: Sequence[PlannedUpdate] = ()
    per_instance: int = 1
    """Copies that fit on an instance; 1 if instances themselves are counted."""


@dataclass
class SimulatedFleet:
    """The state of a variant."""

    plan: FleetPlan
    in_service: int
    desired: int
    launching: int = 0
    ready_at: float = math.inf
    fails: bool = False
    busy_until: float = -math.inf
    """The endpoint is updating until then."""
    instance_s: float = 0.0
    """Billed time of instances."""
    failed_launches: int = 0
    _removes: bool = False
    """Whether a scale-in is in progress."""
    _extra: float = 0.0
    _extra_until: float = -math.inf
    _pending: list[PlannedUpdate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pending = sorted(self.plan.updates, key=lambda update: update.at)

    def is_updating(self, now: float) -> bool:
        """Whether SageMaker rejects another change."""
        return self.launching > 0 or now < self.busy_until

    @property
    def instances(self) -> int:
        """Instances that are billed, without those of a rollout.

        A launch for which AWS has no capacity gets no instance.
        """
        launched = 0 if self.fails else self.launching
        return -(-(self.in_service + launched) // self.plan.per_instance)

    def ask_for(self, now: float, count: int) -> None:
        """Change the desired count."""
        self.desired = count
        if count < self.in_service:
            self.in_service = count
            self.busy_until = now + self.plan.times.removal_s
            self._removes = True
        elif count > self.in_service:
            times = self.plan.times
            self.launching = count - self.in_service
            room = -(-self.in_service // self.plan.per_instance) * self.plan.per_instance
            needs_instances = count > room
            self.ready_at = now + times.loading_s + (times.provisioning_s if needs_instances else 0.0)
            self.fails = needs_instances and any(window.covers(now) for window in self.plan.no_capacity)

    def advance(self, now: float, step_s: float) -> Literal["succeeded", "failed"] | None:
        """Bill the step that ends now, and finish what is due; return how a change has ended."""
        extra = self._extra if now - step_s < self._extra_until else 0.0
        self.instance_s += (self.instances + extra) * step_s
        if self._removes and now >= self.busy_until:
            self._removes = False
            self._start_update(now)
            return "succeeded"
        self._start_update(now)
        if not self.launching or now < self.ready_at:
            return None
        started, self.launching = self.launching, 0
        if self.fails:
            self.failed_launches += started
            self.desired = self.in_service
            self.fails = False
            return "failed"
        self.in_service += started
        return "succeeded"

    def _start_update(self, now: float) -> None:
        if self._pending and now >= self._pending[0].at and not self.is_updating(now):
            update = self._pending.pop(0)
            times = self.plan.times
            lasts = update.batches * (times.provisioning_s + times.loading_s) + update.shifting_s
            self._extra = math.ceil(self.instances * update.share)
            self._extra_until = self.busy_until = now + lasts
