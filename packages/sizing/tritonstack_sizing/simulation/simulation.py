"""Simulate a variant under a load: requests, scaling, and instances, tick by tick."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from tritonstack.base.results import Internal, Key, Rounded, public
from tritonstack.constructs.endpoint.scaling_plan import ScalingPlan
from tritonstack.operate.deploy.kept_parameters import limit_changes
from tritonstack_sizing.loads.histograms import percentiles_s
from tritonstack_sizing.simulation.autoscaler import Autoscaler
from tritonstack_sizing.simulation.demand import Demand
from tritonstack_sizing.simulation.fluid_queues import FluidQueues
from tritonstack_sizing.simulation.request_queues import RequestQueues
from tritonstack_sizing.simulation.serving import (
    TICK_S,
    ServingSetup,
    SliceLatencies,
)


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


MOST_SLICES = 1440
_MINUTE_S = 60.0
_MONTH_H = 730.0


@dataclass(frozen=True)
class SimulationSetup:
    """Everything but the load."""

    serving: ServingSetup
    fleet: FleetPlan
    plan: ScalingPlan | None
    """None: the number of instances is fixed."""
    initial: int
    price_per_hour: float | None = None
    units: Mapping[str, float] = field(default_factory=dict)
    """Value of utilization metrics per 1 % of an instance, such as the number of vCPUs."""
    seed: int = 1


@dataclass(frozen=True)
class SimulatedSlice:
    """A minute of the simulation; more of a long one."""

    at_s: float
    requests: int
    lost: Annotated[float, Rounded(3)]
    desired: int
    in_service: int
    instances: Annotated[float, Rounded(3)]
    """Billed instances on average."""
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class ScalingChange:
    """One change of the desired instance count."""

    at_s: float
    before: int
    after: int
    cause: str


@dataclass(frozen=True)
class ScalingRun:
    """The result of a simulation."""

    is_followed: Annotated[bool, Key("each_request")]
    """Whether each request was simulated."""
    slice_s: float
    slices: tuple[SimulatedSlice, ...] = field(repr=False)
    changes: tuple[ScalingChange, ...] = field(repr=False)
    requests: int
    lost: int
    waiting: int
    """Requests in the queue of an asynchronous endpoint that has no instance when the load ends."""
    p50_ms: float | None
    p99_ms: float | None
    instance_hours: Annotated[float, Rounded(4)]
    hours: Annotated[float, Rounded(4)]
    most_instances: int
    failed_launches: int
    price_per_hour: Internal[float | None]

    @public
    def lost_share(self) -> Annotated[float, Rounded(6)]:
        """The share of lost requests."""
        return self.lost / max(1, self.requests)

    @public
    def cost(self) -> Annotated[float | None, Rounded(4)]:
        """What the instances cost; None without a price."""
        return None if self.price_per_hour is None else self.instance_hours * self.price_per_hour

    @public
    def cost_per_month(self) -> Annotated[float | None, Rounded(2)]:
        """What a month of such loads costs."""
        return None if self.cost is None else self.cost * _MONTH_H / self.hours


def simulate_scaling(setup: SimulationSetup, demand: Demand, *, most_slices: int = MOST_SLICES) -> ScalingRun:
    """Simulate a load; the result has slices of a minute, or of more minutes if there would be too many.

    The same setup and load give the same result.
    """
    serving: RequestQueues | FluidQueues
    if demand.offsets is not None:
        serving = RequestQueues(setup.serving, demand.offsets, seed=setup.seed)
    else:
        serving = FluidQueues(setup.serving, demand.counts, seed=setup.seed)
    state = _Run(setup, demand, serving)
    for tick in range(len(demand.counts)):
        state.step(tick)
    return state.result(most_slices)


class _Run:
    """The state of a simulation."""

    def __init__(self, setup: SimulationSetup, demand: Demand, serving: RequestQueues | FluidQueues) -> None:
        plan = setup.plan
        self._setup, self._demand, self._serving = setup, demand, serving
        self._limits = (setup.initial, setup.initial) if plan is None else (plan.minimum, plan.maximum)
        self._limit_changes = (
            []
            if plan is None
            else list(limit_changes(plan.scheduled, begin=demand.begin, seconds=demand.seconds))
        )
        self._limit_cause = "limits"
        self._due(0.0)
        lowest, highest = self._limits
        begun = setup.initial if demand.instances is None else demand.instances
        initial = min(max(begun, lowest), highest)
        self._fleet = SimulatedFleet(setup.fleet, initial, initial)
        self._scaler = None if plan is None else Autoscaler(plan, units=setup.units)
        ticks = len(demand.counts)
        self._desired = np.zeros(ticks, dtype=np.int64)
        self._in_service = np.zeros(ticks, dtype=np.int64)
        self._billed = np.zeros(ticks)
        self._changes: list[ScalingChange] = []

    def step(self, tick: int) -> None:
        """Simulate one tick, and decide at its end."""
        fleet, end = self._fleet, (tick + 1) * TICK_S
        self._serving.resize(fleet.in_service)
        load = self._serving.run(tick)
        self._desired[tick], self._in_service[tick] = fleet.desired, fleet.in_service
        billed = fleet.instance_s
        ended = fleet.advance(end, TICK_S)
        self._billed[tick] = fleet.instance_s - billed
        if self._scaler is None:
            return
        if ended == "succeeded":
            self._scaler.completed(end)
        elif ended == "failed":
            self._scaler.failed()
        self._scaler.observe(load)
        self._due(end)
        is_updating = fleet.is_updating(end)
        lowest, highest = self._limits
        bounded = min(max(fleet.desired, lowest), highest)
        if not is_updating and bounded != fleet.desired:
            self._ask(end, bounded, self._limit_cause)
            is_updating = True  # alarms that act now change nothing
        decision = self._scaler.decide(end, fleet.desired, limits=self._limits, is_updating=is_updating)
        if decision is not None:
            self._ask(end, decision.instances, decision.cause)

    def _due(self, now: float) -> None:
        """Take the limits of the schedules that are due."""
        while self._limit_changes and self._limit_changes[0].at <= now:
            change = self._limit_changes.pop(0)
            self._limits, self._limit_cause = (change.minimum, change.maximum), f"schedule {change.name}"

    def _ask(self, now: float, count: int, cause: str) -> None:
        self._changes.append(ScalingChange(now, self._fleet.desired, count, cause))
        self._fleet.ask_for(now, count)

    def result(self, most_slices: int) -> ScalingRun:
        """Return everything that happened."""
        demand, ticks = self._demand, len(self._demand.counts)
        minute = round(_MINUTE_S / TICK_S)
        per_slice = max(1, math.ceil(ticks / most_slices / minute)) * minute
        slices, slice_s = -(-ticks // per_slice), per_slice * TICK_S
        latencies = self._serving.latencies(slices, slice_s)
        p50, p99 = (percentiles_s(latencies.counts.sum(axis=0), (50.0, 99.0)) * 1000).tolist()
        return ScalingRun(
            is_followed=demand.offsets is not None,
            slice_s=slice_s,
            slices=tuple(self._sliced(latencies, per_slice)),
            changes=tuple(self._changes),
            requests=demand.requests,
            lost=round(float(latencies.lost.sum())),
            waiting=round(latencies.waiting),
            p50_ms=_known(p50),
            p99_ms=_known(p99),
            instance_hours=self._fleet.instance_s / 3600,
            hours=demand.seconds / 3600,
            most_instances=int(self._in_service.max(initial=0)),
            failed_launches=self._fleet.failed_launches,
            price_per_hour=self._setup.price_per_hour,
        )

    def _sliced(self, latencies: SliceLatencies, per_slice: int) -> Sequence[SimulatedSlice]:
        parts = [
            percentiles_s(latencies.counts[first : first + MOST_SLICES], (50.0, 99.0)) * 1000
            for first in range(0, len(latencies.counts), MOST_SLICES)
        ]
        percentiles = np.concatenate(parts)
        slices = []
        for number, (p50, p99) in enumerate(percentiles.tolist()):
            part = slice(number * per_slice, (number + 1) * per_slice)
            slices.append(
                SimulatedSlice(
                    at_s=number * per_slice * TICK_S,
                    requests=int(self._demand.counts[part].sum()),
                    lost=float(latencies.lost[number]),
                    desired=int(self._desired[part][-1]),
                    in_service=int(self._in_service[part][-1]),
                    instances=float(self._billed[part].sum()) / (len(self._billed[part]) * TICK_S),
                    p50_ms=_known(p50),
                    p99_ms=_known(p99),
                )
            )
        return slices


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)
