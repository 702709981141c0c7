"""Read what an environment's cloud tells a report: status, events, gates, rollouts, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import AWS_ERRORS, Cloud
from tritonstack.operations.events import EventCache, read_events
from tritonstack.operations.rollout_history import PastRollout, RolloutCache, rollouts_of
from tritonstack.operations.verification.expectations import expected_endpoint
from tritonstack.operations.verification.live import deployed_stack
from tritonstack.operations.verification.status import EnvironmentStatus, environment_status
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.workflows.promotion.promote import PromotionRequest, plan_promotion
from tritonstack.workflows.promotion.results import PromotionPlan
from tritonstack.workflows.reports.environments import HOURS_PER_MONTH
from tritonstack.workflows.reports.report_data import (
    EndpointCost,
    LockedModel,
    MissingData,
    PromotionGates,
    ReportData,
    ReportedEnvironment,
    missing_data,
)
from tritonstack.workflows.session import Session

EVENT_DAYS = 90
"""Older events are not shown."""
_FAILURES = (TritonstackError, *AWS_ERRORS)


@dataclass(frozen=True)
class LiveState:
    """What an environment's cloud tells."""

    cloud: Cloud | None = None
    status: EnvironmentStatus | None = None
    unread: str = ""
    """Why the status is not known; empty if it is."""
    events_unread: str = ""
    """Why the events are not known; empty if they are."""
    events: tuple[Event, ...] = ()
    rollouts: tuple[PastRollout, ...] = ()
    missing: tuple[MissingData, ...] = ()


@dataclass
class LiveCache:
    """What was read and cannot change: events, stack events, and completed rollouts."""

    events: EventCache = field(default_factory=dict)
    rollouts: dict[str, RolloutCache] = field(default_factory=dict)
    """By environment."""


def read_live_state(session: Session, workspace: Workspace, cache: LiveCache) -> LiveState:
    """Read an environment; each part that is unreadable is named as missing, and the others are kept."""
    spec, now = workspace.spec, datetime.now(UTC)
    try:
        cloud = session.cloud(spec)
    except _FAILURES as error:
        gap = missing_data(f"deployed state of {spec.name}", error)
        return LiveState(unread=gap.reason, events_unread=gap.reason, missing=(gap,))
    status: EnvironmentStatus | None = None
    events: tuple[Event, ...] = ()
    rollouts: tuple[PastRollout, ...] = ()
    unread, events_unread, missing = "", "", list[MissingData]()
    try:
        status = environment_status(cloud, workspace, now=now, cache=cache.events)
    except _FAILURES as error:
        missing.append(missing_data(f"deployed state of {spec.name}", error))
        unread = missing[-1].reason
    try:
        since = (now - timedelta(days=EVENT_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
        events = tuple(read_events(cloud, spec.artifact_bucket, since=since, cache=cache.events))
    except _FAILURES as error:
        missing.append(missing_data(f"events of {spec.name}", error))
        events_unread = missing[-1].reason
    try:
        rollout_cache = cache.rollouts.setdefault(spec.name, RolloutCache())
        rollouts = tuple(_rollouts(cloud, workspace, rollout_cache, now))
    except _FAILURES as error:
        missing.append(missing_data(f"rollouts of {spec.name}", error))
    return LiveState(cloud, status, unread, events_unread, events, rollouts, tuple(missing))


def with_live_state(
    reported: ReportedEnvironment, workspace: Workspace, live: LiveState
) -> ReportedEnvironment:
    """Return an environment with what its cloud tells."""
    if live.status is None:
        return reported
    running: dict[str, dict[str, str | None]] = {}
    for endpoint in live.status.endpoints:
        for served in endpoint.models:
            if served.live != served.locked:
                running.setdefault(served.model, {})[endpoint.name] = served.live
    models = {
        name: tuple(_running(item, running.get(name, {})) for item in items)
        for name, items in reported.models.items()
    }
    costs = tuple(_cost_now(workspace, live.status, cost) for cost in reported.costs)
    return replace(reported, models=models, costs=costs, status=live.status, rollouts=live.rollouts)


def read_gates(
    session: Session, reported: ReportedEnvironment, source_state: LiveState | None
) -> tuple[PromotionGates | None, list[MissingData]]:
    """Evaluate the promotion gates of an environment, if its source was read.

    A role that may only read one environment, such as that of pull requests, is not used for another one.
    """
    if reported.gates is None:
        return None, []
    source = reported.gates.source
    if source_state is None or source_state.status is None:
        subject, reason = f"gates from {source} to {reported.name}", f"{source} was not read"
        remedy = f"run `tritonstack promote {source} {reported.name} --dry-run`"
        return replace(reported.gates, reason=reason), [MissingData(subject, reason, remedy)]
    try:
        plan = plan_promotion(session, PromotionRequest(source, reported.name))
    except _FAILURES as error:
        missing = missing_data(f"gates from {source} to {reported.name}", error)
        return replace(reported.gates, reason=missing.reason), [missing]
    pending = tuple(_pending(plan))
    return replace(reported.gates, results=plan.gates, pending=pending), []


@dataclass
class StageLog:
    """Remembers the stages of rollouts in progress; AWS reports only the present one."""

    _stages: dict[tuple[str, datetime], list[tuple[float, str]]] = field(default_factory=dict)

    def completed(self, data: ReportData) -> ReportData:
        """Return a report whose rollouts have all stages that were seen."""
        environments = (
            replace(environment, rollouts=tuple(map(self._completed, environment.rollouts)))
            for environment in data.environments
        )
        return replace(data, environments=tuple(environments))

    def _completed(self, rollout: PastRollout) -> PastRollout:
        stages = self._stages.setdefault((rollout.endpoint, rollout.started), [])
        for at, text in rollout.stages:
            if not stages or stages[-1][1] != text:
                stages.append((at, text))
        return replace(rollout, stages=tuple(stages))


def _rollouts(
    cloud: Cloud, workspace: Workspace, cache: RolloutCache, now: datetime
) -> Iterator[PastRollout]:
    for name in workspace.spec.endpoints:
        stack = naming.endpoint_stack_name(workspace.spec.base, name)
        deployed = deployed_stack(cloud, stack)
        if deployed is None or deployed.template is None:
            continue
        expected = expected_endpoint(deployed.template, deployed.facts)
        if expected is not None:
            yield from rollouts_of(cloud, stack, expected, now=now, cache=cache)


def _running(item: LockedModel, running: Mapping[str, str | None]) -> LockedModel:
    return replace(item, running=dict(running))


def _cost_now(workspace: Workspace, status: EnvironmentStatus, cost: EndpointCost) -> EndpointCost:
    """Add the cost of the instances that run now."""
    endpoint = next((candidate for candidate in status.endpoints if candidate.name == cost.endpoint), None)
    if endpoint is None or cost.least is None or not endpoint.machines:
        return cost
    spec = workspace.spec
    types = {variant.name: variant.instance.name for variant in spec.endpoints[cost.endpoint].variants}
    hourly = sum(
        spec.prices[types[machines.variant]] * machines.now
        for machines in endpoint.machines
        if machines.variant in types
    )
    return replace(cost, now=hourly * HOURS_PER_MONTH)


def _pending(plan: PromotionPlan) -> Iterator[str]:
    for item in plan.decision.entries:
        yield f"{item.name} for {item.key}"


def load_tests_of(events: Sequence[Event], model: str) -> tuple[Event, ...]:
    """Return the load tests of a model, latest first."""
    tests = [
        event for event in events if event.load_test and any(item.model == model for item in event.artifacts)
    ]
    return tuple(sorted(tests, key=lambda event: event.at, reverse=True))
