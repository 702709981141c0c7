"""Read what an environment's cloud tells a report: status, events, gates, rollouts, and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import AWS_ERRORS, Cloud
from tritonstack.operations.events import read_events
from tritonstack.operations.rollout_history import PastRollout, rollouts_of
from tritonstack.operations.verification.expectations import expected_endpoint
from tritonstack.operations.verification.live import deployed_stack
from tritonstack.operations.verification.status import EnvironmentStatus, environment_status
from tritonstack.project.workspace import Workspace
from tritonstack.records.events import Event
from tritonstack.workflows.deployment.diff import DeployOutlook, diff
from tritonstack.workflows.promotion.promote import PromotionRequest, plan_promotion
from tritonstack.workflows.promotion.results import PromotionPlan
from tritonstack.workflows.reports.environments import HOURS_PER_MONTH
from tritonstack.workflows.reports.report_data import (
    DeployChanges,
    EndpointCost,
    LockedModel,
    MissingData,
    PromotionGates,
    ReportedEnvironment,
)
from tritonstack.workflows.session import Session

EVENT_DAYS = 90
"""Older events are not shown."""
_FAILURES = (TritonstackError, *AWS_ERRORS)
ReadChanges = tuple[DeployChanges | None, list[MissingData]]
"""What a deploy would change; None if that is missing."""


@dataclass(frozen=True)
class LiveState:
    """What an environment's cloud tells."""

    cloud: Cloud | None = None
    status: EnvironmentStatus | None = None
    events: tuple[Event, ...] = ()
    rollouts: tuple[PastRollout, ...] = ()
    missing: tuple[MissingData, ...] = ()


def read_live_state(session: Session, workspace: Workspace) -> LiveState:
    """Read an environment; what is unreachable is named as missing."""
    spec, now = workspace.spec, datetime.now(UTC)
    try:
        cloud = session.cloud(spec)
        status = environment_status(cloud, workspace, now=now)
        since = (now - timedelta(days=EVENT_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
        events = tuple(read_events(cloud, spec.artifact_bucket, since=since))
    except _FAILURES as error:
        return LiveState(missing=(_missing(f"deployed state of {spec.name}", error),))
    try:
        rollouts = tuple(_rollouts(cloud, workspace, status, now))
    except _FAILURES as error:
        return LiveState(cloud, status, events, missing=(_missing(f"rollouts of {spec.name}", error),))
    return LiveState(cloud, status, events, rollouts)


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
        missing = _missing(f"gates from {source} to {reported.name}", error)
        return replace(reported.gates, reason=missing.reason), [missing]
    pending = tuple(_pending(plan))
    return replace(reported.gates, failed=plan.outline.failed, pending=pending), []


@dataclass
class StageLog:
    """Remembers the stages of rollouts in progress; AWS reports only the present one."""

    _known: dict[tuple[str, datetime], list[tuple[float, str]]] = field(default_factory=dict)

    def completed(self, environment: ReportedEnvironment) -> ReportedEnvironment:
        """Return an environment whose rollouts have all stages that were seen."""
        rollouts = []
        for one in environment.rollouts:
            seen = self._known.setdefault((one.endpoint, one.started), [])
            for at, text in one.stages:
                if not seen or seen[-1][1] != text:
                    seen.append((at, text))
            rollouts.append(replace(one, stages=tuple(seen)))
        return replace(environment, rollouts=tuple(rollouts))


@dataclass
class ChangeReader:
    """Reads what a deploy would change, again only if the files or the last deployment have changed.

    With an executor, `read` does not wait: a later call returns the changes.
    """

    executor: Executor | None = None
    _known: dict[str, tuple[object, ReadChanges]] = field(default_factory=dict)
    _running: set[str] = field(default_factory=set)

    def read(self, session: Session, workspace: Workspace, status: EnvironmentStatus) -> ReadChanges:
        """Return what a deploy of an environment would change, and what is missing."""
        name = workspace.spec.name
        deployed = [(one.status, one.deployed and one.deployed.key) for one in status.endpoints]
        state = (workspace.spec, workspace.lock.record, dict(workspace.hashes), deployed)
        known = self._known.get(name)
        if known is not None and known[0] == state and known[1][0] is not None:
            return known[1]
        if self.executor is None:
            return self._compare(session, name, state)
        if name not in self._running:
            self._running.add(name)
            self.executor.submit(self._compare, session, name, state)
        if known is not None and known[0] == state:
            return known[1]  # it has failed, and runs again
        return None, [MissingData(f"changes by a deploy of {name}", "the stacks are being compared")]

    def _compare(self, session: Session, name: str, state: object) -> ReadChanges:
        found: ReadChanges
        try:
            found = _changes(diff(session, name)), []
        except _FAILURES as error:
            found = None, [_missing(f"changes by a deploy of {name}", error)]
        finally:
            self._running.discard(name)
        self._known[name] = (state, found)
        return found


def _changes(outlook: DeployOutlook) -> DeployChanges:
    stacks = []
    for plan in outlook.changes.plans:
        planned = [one for one in outlook.resource_changes.get(plan.stack, ()) if not one.expected]
        taken = [one.description for one in outlook.taken_by(plan.stack)]
        if plan.action != "nothing" or taken:
            details = (*taken, *plan.details, *(one.description for one in planned))
            stacks.append((plan.description, details))
    copied = [f"{name}: {', '.join(models)}" for name, models in outlook.model_prefixes.items()]
    others = (*outlook.leftovers, *(f"copied to the model prefix of {line}" for line in copied))
    return DeployChanges(tuple(outlook.models), tuple(stacks), others, outlook.rejected)


def _rollouts(
    cloud: Cloud, workspace: Workspace, status: EnvironmentStatus, now: datetime
) -> Iterator[PastRollout]:
    for endpoint in status.endpoints:
        stack = naming.endpoint_stack_name(workspace.spec.base, endpoint.name)
        deployed = deployed_stack(cloud, stack)
        if deployed is None or deployed.template is None:
            continue
        expected = expected_endpoint(deployed.template, deployed.facts)
        if expected is not None:
            yield from rollouts_of(cloud, stack, expected, now=now)


def _running(item: LockedModel, running: Mapping[str, str | None]) -> LockedModel:
    return replace(item, running=dict(running))


def _cost_now(workspace: Workspace, status: EnvironmentStatus, cost: EndpointCost) -> EndpointCost:
    """Add the cost of the instances that run now."""
    found = next((one for one in status.endpoints if one.name == cost.endpoint), None)
    if found is None or cost.least is None or not found.machines:
        return cost
    spec = workspace.spec
    types = {variant.name: variant.instance.name for variant in spec.endpoints[cost.endpoint].variants}
    hourly = sum(spec.prices[types[one.variant]] * one.now for one in found.machines if one.variant in types)
    return replace(cost, now=hourly * HOURS_PER_MONTH)


def _pending(plan: PromotionPlan) -> Iterator[str]:
    for item in plan.outline.decision.entries:
        yield f"{item.name} for {item.key}"


def _missing(subject: str, error: BaseException) -> MissingData:
    if isinstance(error, TritonstackError):
        return MissingData(subject, error.message, error.remedy or "")
    return MissingData(subject, f"AWS error: {error}")


def load_tests_of(events: Sequence[Event], model: str) -> tuple[Event, ...]:
    """Return the load tests of a model, latest first."""
    found = [one for one in events if one.load_test and any(item.model == model for item in one.artifacts)]
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))
