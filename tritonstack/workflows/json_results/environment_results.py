"""Results of commands that read or change deployed environments."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tritonstack.operations.audit.found import UnreadableResource
from tritonstack.operations.audit.report import Item, UnlistedService
from tritonstack.operations.deploying.updates import Hazard
from tritonstack.operations.destruction.reaping import ExpiryState
from tritonstack.operations.destruction.running_builds import RunningBuild
from tritonstack.operations.smoke.asking import SmokeResult, UntestedVariant
from tritonstack.operations.verification.status import Machines, ServedDigest
from tritonstack.operations.verification.traffic import Traffic
from tritonstack.records.locks import Built, Figures, Promoted
from tritonstack.workflows.environments.targets import EndpointTargets
from tritonstack.workflows.json_results.shape import Shape


class PlannedChangeJson(Shape):
    """A resource that is replaced, deleted, or orphaned."""

    stack: str
    logical_id: str
    type: str
    action: Literal["replaced", "maybe replaced", "deleted", "orphaned"]
    name: str | None
    """Its name, if it is kept."""
    rejected: bool
    """True if CloudFormation rejects the change."""


class TakenNameJson(Shape):
    """A new resource whose name is taken."""

    stack: str
    logical_id: str
    type: str
    name: str
    summary: str


class StackJson(Shape):
    """What a deploy does to a stack."""

    stack: str
    action: Literal["create", "nothing", "change", "roll-out", "two-phase", "rejected"]
    endpoint: str | None
    """The endpoint's full name, if the stack has one."""
    reasons: list[str]
    """Why the endpoint is rolled out."""
    rollout: str
    """How it is rolled out."""
    hazards: list[Hazard]
    summary: str
    resources: list[PlannedChangeJson]
    taken_names: list[TakenNameJson]


class ModelChangeJson(Shape):
    """A model whose artifact a deploy adds or replaces."""

    model: str
    target: str
    before: str | None
    """The deployed digest."""
    after: str
    """The locked digest."""
    figures_before: Figures | None
    figures_after: Figures | None
    changed_bounds: list[str]
    """How `accept` has changed since the deployed artifact was built, one line per output."""
    built: Built | None
    promoted: Promoted | None
    summary: str


class ImageChangeJson(Shape):
    """A custom image that a deploy adds or replaces."""

    folder: str
    kind: str
    before: str | None
    after: str
    summary: str


class DiffJson(Shape):
    """What a deploy would change."""

    environment: str
    since: str | None
    """The commit that it compares with; null if it compares with what is deployed."""
    stacks: list[StackJson]
    models: list[ModelChangeJson]
    images: list[ImageChangeJson]
    model_prefixes: dict[str, list[str]]
    """Endpoint -> models that are copied to its model prefix."""
    leftovers: list[str]
    """Stacks that are deployed, but no longer requested."""
    rejected: bool
    diff: str
    """The CDK's own diff."""


class DeployJson(Shape):
    """A finished deployment."""

    environment: str
    endpoints: dict[str, str]
    """Endpoint name in the environment file -> full name; all are InService."""
    owner: str = ""
    """Of an instance of a template."""
    expires: str = ""


class CheckJson(Shape):
    """One check of what runs."""

    aspect: str
    failures: list[str]
    notes: list[str]
    detail: str
    compared: int
    skipped: int
    passed: bool


class EndpointVerdictJson(Shape):
    """The checks of an endpoint."""

    name: str
    endpoint: str
    """The full name."""
    passed: bool
    checks: list[CheckJson]
    smoke: list[SmokeResult]
    """One answer per example, model, and variant."""
    not_tested: list[UntestedVariant]
    not_compared: dict[str, int]
    """CloudFormation type -> number of resources that were checked by template only."""


class VerifyJson(Shape):
    """Whether what runs is what the commit asks for."""

    environment: str
    commit: str | None
    uncommitted: list[str]
    passed: bool
    tested: bool
    """True if answers were checked."""
    stacks: list[CheckJson]
    endpoints: list[EndpointVerdictJson]
    failures: list[str]
    summary: str


class GateJson(Shape):
    """A promotion gate."""

    gate: str
    subject: str
    """The artifact; empty if the gate applies to all."""
    required: str
    measured: str
    passed: bool
    reason: str
    """Why it failed; empty if it passed."""
    remedy: str
    """How to pass it; empty if it passed."""
    overridden: str | None
    """The reason, if it failed and is overridden."""


class EntryJson(Shape):
    """An artifact (model, target, bytes), or an image (image, kind, tag)."""

    model: str = ""
    target: str = ""
    bytes: int = 0
    image: str = ""
    kind: str = ""
    tag: str = ""
    digest: str


class PromotedEntryJson(EntryJson):
    """An entry that is promoted."""

    replaces: str | None


class CopiedEntryJson(EntryJson):
    """An entry that was copied."""

    summary: str


class PromoteOutlineJson(Shape):
    """What a promotion copies and changes."""

    source: str
    target: str
    lock: str
    changed: bool
    promoted: list[PromotedEntryJson]
    up_to_date: list[EntryJson]
    target_builds: list[str]
    """Models of which the target uses its own build."""
    rolled_back: list[EntryJson]
    to_copy: list[EntryJson]
    gates: list[GateJson]


class PromotePlanJson(PromoteOutlineJson):
    """A promotion with `--dry-run`."""

    dry_run: Literal[True]
    bytes: int
    lock_diff: str


class PromoteJson(PromoteOutlineJson):
    """A finished promotion."""

    dry_run: Literal[False]
    copied: list[CopiedEntryJson]


class RollbackStepJson(Shape):
    """A lock entry that is rolled back."""

    name: str
    key: str
    origin: str = Field(alias="from")
    to: str


class RollbackJson(Shape):
    """A rollback that was planned or made."""

    endpoint: str
    origin: str
    changed: bool
    also_rolled_back: list[str]
    """Other endpoints with the same models."""
    steps: list[RollbackStepJson]


class RetainedJson(Shape):
    """A resource that its stack retains."""

    type: str
    id: str


class RejectionJson(Shape):
    """Why a command rejects an environment."""

    code: str
    message: str
    remedy: str


class DestroyPlanJson(Shape):
    """What a destruction would delete."""

    environment: str
    dry_run: Literal[True]
    running_builds: list[RunningBuild]
    ended_jobs: list[str]
    stacks: list[str]
    """In the order of their deletion."""
    buckets: list[str]
    repositories: list[str]
    keys: list[str]
    log_groups: list[str]
    replaced: list[str]
    retained: list[RetainedJson]
    requires_name: bool
    rejected: RejectionJson | None
    """Why `destroy` rejects the environment: it is protected."""


class DestroyJson(Shape):
    """A finished destruction."""

    environment: str
    stopped_builds: list[RunningBuild]
    deleted_jobs: list[str]
    deleted_stacks: list[str]
    deleted_log_groups: list[str]
    deleted_replaced: list[str]
    retained: list[RetainedJson]


class EventJson(Shape):
    """The last deployment or verdict."""

    kind: str
    at: str
    by: str
    commit: str | None
    uncommitted: list[str]
    note: str | None


class EndpointStatusJson(Shape):
    """The status of an endpoint."""

    name: str
    endpoint: str
    """The full name."""
    status: str
    """SageMaker's status, or `not deployed`."""
    models: list[ServedDigest]
    machines: list[Machines]
    traffic: Traffic
    """Of the last 15 minutes."""
    firing_alarms: list[str]
    """Alarms in state ALARM."""
    drift: list[str]
    """Differences between the running and the deployed state."""
    to_deploy: list[str]
    """Differences between the deployed and the checked-out state."""
    deployed: EventJson | None
    verdict: EventJson | None


class EnvironmentStatusJson(Shape):
    """The status of an environment."""

    name: str
    account: str
    region: str
    error: str | None
    """Why the status is unavailable."""
    commit: str | None
    uncommitted: list[str]
    deployed: EventJson | None
    endpoints: list[EndpointStatusJson]


class StatusJson(Shape):
    """The status of environments."""

    environments: list[EnvironmentStatusJson]
    expiring: tuple[ExpiryState, ...] = ()
    """Instances of templates, unless single environments were requested."""
    not_searched: tuple[str, ...] = ()


class LogLineJson(Shape):
    """A line of a log; with `--follow`, one document per line."""

    time: str
    source: str
    stream: str
    message: str


class LogsJson(Shape):
    """Lines of logs."""

    lines: list[LogLineJson]
    notes: list[str]


class InvokeJson(Shape):
    """The answer of an endpoint."""

    inputs: list[str] | dict[str, Any]
    """Texts, or values per tensor."""
    outputs: dict[str, Any]
    """Values per tensor."""
    classes: dict[str, list[list[dict[str, Any]]]] = Field(default_factory=dict)
    """Labels per output, highest first."""
    responses: tuple[dict[str, Any], ...] = ()
    """Responses of a decoupled model."""


class SnippetJson(Shape):
    """A request for another program."""

    language: str
    text: str
    model: str
    endpoint: str
    content_type: str
    body_file: str


class TargetsJson(Shape):
    """Model names of multi-model endpoints."""

    environment: str
    region: str
    endpoints: dict[str, EndpointTargets]


class HistoryEntryJson(Shape):
    """An event in the history of an artifact."""

    kind: str
    environment: str
    at: str
    by: str
    commit: str | None
    note: str | None


class ArtifactHistoryJson(Shape):
    """The history of an artifact."""

    digest: str
    target: str
    figures: Figures | None
    entries: list[HistoryEntryJson]


class HistoryJson(Shape):
    """What happened to a model's artifacts."""

    model: str
    environments: list[str]
    incomplete: list[str]
    """Why parts of the history are missing."""
    artifacts: list[ArtifactHistoryJson]


class AuditReportJson(Shape):
    """Remaining resources."""

    resources: list[Item]
    orphans: list[Item]
    """Resources without a stack."""
    pending_deletion: list[Item]
    not_listed: list[UnlistedService]
    not_described: list[UnreadableResource]


class ReapJson(Shape):
    """Expired environments."""

    dry_run: bool
    expired: list[ExpiryState]
    reaped: list[str]
    failed: dict[str, str]
    kept: list[ExpiryState]
    extended: list[str]
    not_searched: list[str]


class ReportSummaryJson(Shape):
    """What a report shows."""

    project: str
    at: str
    commit: str | None
    environments: list[str]
    models: list[str]
    missing: list[dict[str, Any]]
    """Data that could not be read, and why."""


class ReportFileJson(Shape):
    """A report that was written."""

    file: str
    bytes: int
    report: ReportSummaryJson
