"""Read what an environment's cloud tells a report: status, events, gates, rollouts, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tritonstack.base import naming
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.operate.promote.promote import PromotionRequest, plan_promotion
from tritonstack.operate.report.environments import HOURS_PER_MONTH
from tritonstack.operate.report.report_data import (
    EndpointCost,
    Gaps,
    MissingData,
    PromotionGates,
    ReportData,
    ReportedEnvironment,
)
from tritonstack.operate.report.rollout_history import PastRollout, rollouts_of
from tritonstack.operate.shared.aws import Cloud
from tritonstack.operate.shared.events import EventCache, read_events
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.status import EnvironmentStatus, environment_status
from tritonstack.operate.verify.expectations import expected_endpoint
from tritonstack.operate.verify.live import deployed_stack

EVENT_DAYS = 90
"""Older events are not shown."""


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


def read_live_state(session: Session, workspace: Workspace, cache: EventCache) -> LiveState:
    """Read an environment; each part that is unreadable is named as missing, and the others are kept."""
    spec, now, gaps = workspace.spec, datetime.now(UTC), Gaps()
    cloud = gaps.attempt(f"deployed state of {spec.name}", lambda: session.cloud(spec))
    if cloud is None:
        return LiveState(unread=gaps[0].reason, events_unread=gaps[0].reason, missing=tuple(gaps))
    status = gaps.attempt(
        f"deployed state of {spec.name}", lambda: environment_status(cloud, workspace, now=now, cache=cache)
    )
    since = (now - timedelta(days=EVENT_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    events = gaps.attempt(
        f"events of {spec.name}",
        lambda: tuple(read_events(cloud, spec.artifact_bucket, since=since, cache=cache)),
    )
    rollouts = gaps.attempt(f"rollouts of {spec.name}", lambda: tuple(_rollouts(cloud, workspace, now)))
    reasons = {gap.subject: gap.reason for gap in gaps}
    return LiveState(
        cloud,
        status,
        unread=reasons.get(f"deployed state of {spec.name}", ""),
        events_unread=reasons.get(f"events of {spec.name}", ""),
        events=events or (),
        rollouts=rollouts or (),
        missing=tuple(gaps),
    )


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
        name: tuple(replace(item, running=running.get(name, {})) for item in items)
        for name, items in reported.models.items()
    }
    costs = tuple(_cost_now(workspace, live.status, cost) for cost in reported.costs)
    return replace(reported, models=models, costs=costs, status=live.status, rollouts=live.rollouts)


def read_gates(
    session: Session, reported: ReportedEnvironment, source_state: LiveState | None, gaps: Gaps
) -> PromotionGates | None:
    """Evaluate the promotion gates of an environment, if its source was read.

    A role that may only read one environment, such as that of pull requests, is not used for another one.
    """
    if reported.gates is None:
        return None
    source, plan = reported.gates.source, None
    subject = f"gates from {source} to {reported.name}"
    if source_state is None or source_state.status is None:
        remedy = f"run `tritonstack promote {source} {reported.name} --dry-run`"
        gaps.append(MissingData(subject, f"{source} was not read", remedy))
    else:
        request = PromotionRequest(source, reported.name)
        plan = gaps.attempt(subject, lambda: plan_promotion(session, request))
    if plan is None:
        return replace(reported.gates, reason=gaps[-1].reason)
    pending = tuple(f"{item.name} for {item.key}" for item in plan.decision.entries)
    return replace(reported.gates, results=plan.gates, pending=pending)


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


def _rollouts(cloud: Cloud, workspace: Workspace, now: datetime) -> Iterator[PastRollout]:
    for name in workspace.spec.endpoints:
        stack = naming.endpoint_stack_name(workspace.spec.base, name)
        deployed = deployed_stack(cloud, stack)
        if deployed is None or deployed.template is None:
            continue
        expected = expected_endpoint(deployed.template, deployed.facts)
        if expected is not None:
            yield from rollouts_of(cloud, stack, expected, now=now)


def _cost_now(workspace: Workspace, status: EnvironmentStatus, cost: EndpointCost) -> EndpointCost:
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


def load_tests_of(events: Sequence[Event], model: str) -> tuple[Event, ...]:
    """Return the load tests of a model, latest first."""
    tests = [
        event for event in events if event.load_test and any(item.model == model for item in event.artifacts)
    ]
    return tuple(sorted(tests, key=lambda event: event.at, reverse=True))
