"""Read the status of environments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from tritonstack.base import naming
from tritonstack.base.error_kinds import CommandLineError
from tritonstack.base.errors import InvalidFilesError, TritonstackError, UsageError
from tritonstack.base.files import short_digest
from tritonstack.base.results import Internal, Shown, public
from tritonstack.base.revisions import commit_id, is_committed, list_files, short_commit
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.events import Event
from tritonstack.operate.destroy.reap import ExpiringEnvironments, ExpiryState, NotSearched, find_expiring
from tritonstack.operate.shared.artifacts import missing_copies, model_copies
from tritonstack.operate.shared.aws import AWS_ERRORS, Cloud, in_parallel
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.deployed import locations
from tritonstack.operate.shared.events import EventCache, latest_events, latest_of_each
from tritonstack.operate.shared.revisions import ComparedRevision, Revision, files_of_environment, revision_of
from tritonstack.operate.shared.session import Session
from tritonstack.operate.status.traffic import Traffic, recent_traffic
from tritonstack.operate.verify.endpoint_checks import HEALTH, endpoint_checks, firing_alarms, limits
from tritonstack.operate.verify.expectations import ExpectedEndpoint, expected_endpoint
from tritonstack.operate.verify.live import DeployedStack, LiveEndpoint, deployed_stack, observe_endpoint

# Nothing is synthesized, so it is fast: files that changed since the last deployment indicate drift.
# `tritonstack diff` shows the details.


_TELLING = ("environments/", "models/")
"""Paths in order of significance."""
_ARTIFACT = re.compile(r"/models/(?P<model>[^/]+)/(?P<digest>[0-9a-f]{64})/")


@dataclass(frozen=True)
class ServedDigest:
    """A model on an endpoint: running and locked artifact."""

    model: str
    live: str | None
    locked: str | None
    unverified: str | None = None
    """Why the locked artifact's answers are unverified, from its build."""


@dataclass(frozen=True)
class Machines:
    """The instance count of a variant."""

    variant: str
    now: int
    least: int
    most: int


@dataclass(frozen=True)
class EventFacts:
    """The last deployment or verdict."""

    kind: str
    at: str
    by: str
    commit: str | None
    uncommitted: tuple[str, ...]
    note: str


def _event_facts(event: Event | None) -> EventFacts | None:
    if event is None:
        return None
    return EventFacts(event.kind, event.at, event.by, event.commit, event.uncommitted or (), event.note)


ShownEvent = Annotated[Event | None, Shown(_event_facts)]
"""An event lists the artifacts of all endpoints, which is too long for each endpoint of a JSON document."""


@dataclass(frozen=True)
class EndpointStatus:
    """The status of one endpoint."""

    name: str
    endpoint: str
    """The full name."""
    status: str
    """SageMaker's status; `not deployed` if there is no endpoint."""
    models: tuple[ServedDigest, ...] = ()
    machines: tuple[Machines, ...] = ()
    traffic: Traffic = field(default_factory=Traffic)
    firing_alarms: tuple[str, ...] = ()
    """Alarms in state ALARM."""
    drift: tuple[str, ...] = ()
    """Differences between the running and the deployed state."""
    to_deploy: tuple[str, ...] = ()
    """Differences between the deployed and the checked-out state."""
    deployed: ShownEvent = None
    verdict: ShownEvent = None

    @property
    def lacks_only_commit(self) -> bool:
        """Whether it was deployed from uncommitted files, and nothing else is known to differ."""
        is_recorded = self.deployed is None or is_committed(self.deployed.commit)
        return len(self.to_deploy) == 1 and not is_recorded and all(m.live == m.locked for m in self.models)


@dataclass(frozen=True)
class EnvironmentStatus(ComparedRevision):
    """The status of an environment; `error` says why it is unavailable."""

    name: str
    account: str = ""
    region: str = ""
    error: str | None = None
    endpoints: tuple[EndpointStatus, ...] = ()
    revision: Internal[Revision] = field(default_factory=lambda: Revision(None))
    """The checked-out revision."""

    @public
    def deployed(self) -> ShownEvent:
        """The last deployment of any of its endpoints."""
        events = [endpoint.deployed for endpoint in self.endpoints if endpoint.deployed]
        return max(events, key=lambda event: event.at, default=None)


@dataclass(frozen=True)
class _ObservedEndpoint:
    deployed: DeployedStack | None
    expected: ExpectedEndpoint | None = None
    live: LiveEndpoint = field(default_factory=LiveEndpoint)


def environment_status(
    cloud: Cloud, workspace: Workspace, *, now: datetime, cache: EventCache | None = None
) -> EnvironmentStatus:
    """Return the status of an environment; `cache` holds events that were read before."""
    spec, names = workspace.spec, list(workspace.spec.endpoints)
    observations = dict(
        zip(names, in_parallel(lambda name: _observe(cloud, workspace, name), names), strict=True)
    )
    events = [
        latest_of_each(latest_events(cloud, spec.artifact_bucket, *kinds, cache=cache), names)
        for kinds in (("deployed",), ("verified", "refuted"))
    ]
    expected = [observed.expected for observed in observations.values() if observed.expected is not None]
    traffic = recent_traffic(cloud, expected, now=now) if expected else {}
    lacking = missing_copies(cloud, bucket=spec.artifact_bucket, copies=model_copies(workspace))
    copied = {(copy.endpoint, copy.model) for copy in model_copies(workspace)} - {
        (copy.endpoint, copy.model) for copy in lacking
    }
    checkout = Checkout(workspace.project.root)
    return EnvironmentStatus(
        name=spec.name,
        account=spec.account,
        region=spec.region,
        revision=revision_of(workspace),
        endpoints=tuple(
            _status(
                workspace,
                name,
                observations[name],
                traffic=traffic.get(spec.endpoint_name(name), Traffic()),
                copied={model for endpoint, model in copied if endpoint == name},
                deployed=events[0].get(name),
                verdict=events[1].get(name),
                checkout=checkout,
            )
            for name in names
        ),
    )


def served_digests(
    workspace: Workspace, name: str, live: LiveEndpoint, copied: Iterable[str]
) -> list[ServedDigest]:
    """Return an endpoint's models with running and locked artifacts. Pure."""
    existing = set(copied)
    running = dict(_running(live))
    locked: dict[str, str | None] = {}
    unverified: dict[str, str | None] = {}
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        locked[served.model] = artifact.digest if artifact else None
        unverified[served.model] = artifact.unverified if artifact else None
    if isinstance(workspace.spec.endpoints[name], MultiModelEndpoint):
        running = {model: digest for model, digest in locked.items() if model in existing and digest}
    return [
        ServedDigest(model, running.get(model), locked.get(model), unverified.get(model))
        for model in dict.fromkeys((*locked, *running))
    ]


def undeployed(
    deployed: Event | None, changed: Sequence[str] | None, models: Iterable[ServedDigest]
) -> list[str]:
    """Return why the deployed state may differ from the checkout. Pure.

    `changed` are relevant files that differ from the deployed commit, the environment's first; None if git
    cannot tell.
    """
    differences = [
        f"{served.model} is {_short(served.live)}, lock expects {_short(served.locked)}"
        for served in models
        if served.live != served.locked
    ]
    if deployed is None:
        return [*differences, "no record of the deployed commit"]
    commit = deployed.commit
    if commit is None or not is_committed(commit):
        listed = f": {list_files(deployed.uncommitted)}" if deployed.uncommitted else ""
        differences.append(f"deployed from uncommitted files{listed}; deploy from a commit to record it")
        uncommitted = deployed.uncommitted or ()
        is_complete = bool(uncommitted) and not uncommitted[-1].startswith("(")
        if is_complete and (later := [file for file in changed or () if file not in uncommitted]):
            differences.append(f"changed since the deploy: {list_files(later)}")
    elif changed is None:
        differences.append(f"deployed from commit {short_commit(commit)}, which is not in this git checkout")
    elif changed:
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        differences.append(
            f"{changed[0]}{others} differ{'s' if len(changed) == 1 else ''} "
            f"from commit {short_commit(commit)}"
        )
    return differences


def _observe(cloud: Cloud, workspace: Workspace, name: str) -> _ObservedEndpoint:
    deployed = deployed_stack(cloud, naming.endpoint_stack_name(workspace.spec.base, name))
    if deployed is None or deployed.template is None:
        return _ObservedEndpoint(deployed)
    expected = expected_endpoint(deployed.template, deployed.facts)
    if expected is None:
        return _ObservedEndpoint(deployed)
    return _ObservedEndpoint(deployed, expected, observe_endpoint(cloud, expected))


def _status(
    workspace: Workspace,
    name: str,
    observed: _ObservedEndpoint,
    *,
    traffic: Traffic,
    copied: Iterable[str],
    deployed: Event | None,
    verdict: Event | None,
    checkout: Checkout,
) -> EndpointStatus:
    full_name = workspace.spec.endpoint_name(name)
    if observed.expected is None or observed.live.described is None:
        stack = observed.deployed.state if observed.deployed else None
        drift = (f"stack status: {stack.status}",) if stack else ()
        # A verdict on a deleted endpoint does not apply.
        return EndpointStatus(name, full_name, "not deployed", drift=drift, deployed=deployed)
    models = served_digests(workspace, name, observed.live, copied)
    commit = deployed.commit if deployed else None
    changed = checkout.changed_since(commit_id(commit), _deciding_files(workspace)) if commit else None
    if changed:
        changed.sort(key=lambda file: not file.startswith(_TELLING))
    return EndpointStatus(
        name=name,
        endpoint=full_name,
        status=observed.live.described["EndpointStatus"],
        models=tuple(models),
        machines=tuple(_machines(observed.expected, observed.live.described)),
        traffic=traffic,
        firing_alarms=tuple(firing_alarms(observed.expected, observed.live)),
        drift=tuple(_drift(observed)),
        to_deploy=tuple(undeployed(deployed, changed, models)),
        deployed=deployed,
        verdict=verdict,
    )


def _drift(observed: _ObservedEndpoint) -> Iterator[str]:
    if observed.deployed is not None and observed.deployed.state.failure:
        yield f"stack: {observed.deployed.state.failure}"
    if observed.expected is not None:
        for check in endpoint_checks(observed.expected, observed.live):
            if check.aspect != HEALTH:
                yield from (f"{check.aspect}: {failure}" for failure in check.failures)


def _machines(expected: ExpectedEndpoint, described: Mapping[str, Any]) -> Iterator[Machines]:
    for listed in ("ProductionVariants", "ShadowProductionVariants"):
        for variant in described.get(listed, ()):
            name = variant["VariantName"]
            if name in expected.variants:
                least, most = limits(expected, name)
                yield Machines(name, int(variant.get("CurrentInstanceCount", 0)), least, most)


def _running(live: LiveEndpoint) -> Iterator[tuple[str, str]]:
    for model in live.models.values():
        url = (model or {}).get("PrimaryContainer", {}).get("ModelDataUrl", "")
        if match := _ARTIFACT.search(url):
            yield match["model"], match["digest"]


def _deciding_files(workspace: Workspace) -> list[str]:
    """Return what a deployment depends on, as paths below the project."""
    root = workspace.project.root.resolve()
    paths = (path.resolve() for path in files_of_environment(workspace).paths)
    return sorted(str(path.relative_to(root)) for path in paths if path.is_relative_to(root))


def _short(digest: str | None) -> str:
    return short_digest(digest) if digest else "missing"


_AT_ONCE = 4


def _states(expiring: ExpiringEnvironments | None) -> list[ExpiryState] | None:
    return None if expiring is None else [case.state for case in expiring.cases]


@dataclass(frozen=True)
class Statuses:
    """The status of environments, and the instances of templates that exist beside them."""

    environments: tuple[EnvironmentStatus, ...]
    expiring: Annotated[ExpiringEnvironments | None, Shown(_states)] = None
    """None if single environments were requested."""

    @public
    def not_searched(self) -> NotSearched:
        """The locations not searched for instances of templates, and why."""
        return dict(self.expiring.not_searched) if self.expiring else {}


def status(session: Session, environments: Sequence[str] = (), *, instance: str | None = None) -> Statuses:
    """Read the status of environments, or of an instance of one template; of all by default.

    An environment that is unreachable has `error` set and does not stop the others.
    """
    if instance is not None and len(environments) != 1:
        raise CommandLineError(
            "--name requires one template", remedy="for example status preview --name pr-123"
        )
    now = datetime.now(UTC)
    files = ProjectFiles(session.project)
    names = environments or files.environment_names
    with session.reporter.step("reading the current state"), ThreadPoolExecutor(_AT_ONCE) as pool:
        known_cloud = None
        if not environments:
            known_cloud = pool.submit(find_expiring, session, locations(session.project), now=now)
        statuses = tuple(
            pool.map(lambda environment: _one(session, files, environment, instance, now=now), names)
        )
        return Statuses(statuses, known_cloud.result() if known_cloud else None)


def _one(
    session: Session, files: ProjectFiles, name: str, instance: str | None, *, now: datetime
) -> EnvironmentStatus:
    try:
        workspace = session.workspace(name, instance, files=files)
    except TritonstackError as error:
        if isinstance(error, UsageError) and not isinstance(error, InvalidFilesError):
            raise  # an unknown name is a usage error
        return EnvironmentStatus(instance or name, error=str(error))
    spec = workspace.spec
    try:
        return environment_status(session.cloud(spec), workspace, now=now)
    except (TritonstackError, *AWS_ERRORS) as error:
        return EnvironmentStatus(spec.name, spec.account, spec.region, error=str(error))
