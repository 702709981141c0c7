"""Results of commands that read or write files of the project, or install tools."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from tritonstack.operations.delivery_routes import DeliveryStage
from tritonstack.operations.deploying.preflight import PreflightCheck
from tritonstack.records.locks import LockedArtifact
from tritonstack.records.manifests import Manifest
from tritonstack.workflows.github import LockProposal
from tritonstack.workflows.installation.doctor import InstallationCheck
from tritonstack.workflows.json_results.shape import FindingJson, Shape


class InitJson(Shape):
    """A new repository."""

    folder: str
    files: list[str]
    kept: list[str]
    """Files that existed before."""


class NewJson(Shape):
    """Files that were added or changed."""

    name: str
    files: list[str]


class ImportJson(Shape):
    """A model that was imported."""

    name: str
    kind: str
    files: list[str]
    changes: list[str]
    """What the import changed or left out."""
    findings: list[FindingJson]
    environment: str | None
    """The environment that got an endpoint."""


class SetupJson(Shape):
    """What was installed."""

    installed: list[str]
    server: bool | str | None
    """The embedded Triton server."""


class InstallationJson(Shape):
    """What is installed for the project, and what is missing."""

    ok: bool
    checks: list[InstallationCheck]


class RepositoryJson(Shape):
    """Findings in a Triton repository."""

    ok: bool
    path: str
    release: str
    models: list[str]
    entry: str | None
    """The model that both hosting modes load; null if it is not certain."""
    variables: dict[str, str]
    """Environment variables that a single-model endpoint needs."""
    findings: list[FindingJson]


class UpgradeJson(Shape):
    """The version that the repository pins."""

    version: str
    previous: str | None
    files: list[str]
    removed: list[str]


class PreflightJson(Shape):
    """Whether an account and region have what an environment needs."""

    environment: str
    account: str
    region: str
    checks: list[PreflightCheck]


class ValidationJson(Shape):
    """Valid files."""

    valid: Literal[True]
    environments: list[str]
    templates: list[str]
    models: list[str]
    warnings: list[str]
    unbuilt: list[str]
    not_deployable: list[str]
    """Environments that need a build before a deploy."""
    notes: list[str]
    checked_online: list[str]
    """Environments whose locks were compared with their account."""
    preflights: list[PreflightJson]
    """What the accounts and regions have; empty without `--online`."""


class QuotaJson(Shape):
    """A quota that an environment needs, and the account's."""

    service: str
    """Service code of `aws service-quotas`."""
    name: str
    value: int
    """What the peak needs, updates included."""
    reasons: list[str]
    least: int
    """What a first deployment needs."""
    code: str | None
    account_value: float | None
    """Null if the account was not read, or lists no such quota."""
    request: str | None
    """The command that requests an increase; null if none is needed."""


class QuotasJson(Shape):
    """AWS quotas that an environment needs."""

    environment: str
    account: str
    region: str
    quotas: list[QuotaJson]


class CodesJson(Shape):
    """All error codes, with their titles."""

    codes: dict[str, str]


class CodeJson(Shape):
    """The explanation of an error code."""

    code: str
    title: str
    explanation: str
    example: str
    message: str


class OutcomeJson(Shape):
    """An artifact after a build."""

    model: str
    digest: str | None
    target: str
    reused: bool
    """True if the artifact existed before."""
    directory: str | None
    """Its folder on this machine."""


class BuildJson(Shape):
    """A finished build."""

    lock: str
    changed: bool
    """True if the lock changed."""
    commit: str | None
    uncommitted: list[str]
    artifacts: list[OutcomeJson]


class PlannedArtifactJson(Shape):
    """An artifact that an environment needs."""

    model: str
    targets: list[str]
    build: bool
    reason: str
    """Why it has to be built; empty if it is up to date."""
    where: str
    digest: str | None
    summary: str


class PlannedImageJson(Shape):
    """A custom image that an endpoint runs."""

    image: str
    build: bool
    summary: str


class BuildPlanJson(Shape):
    """What a build would make."""

    environment: str
    artifacts: list[PlannedArtifactJson]
    images: list[PlannedImageJson]


class KnownArtifactJson(Shape):
    """An artifact of a model."""

    digest: str
    target: str
    current: bool
    """True if it was built from the present files."""
    local: bool
    """True if it is on this machine."""
    environments: list[str]
    """Environments whose locks name it."""


class InspectionJson(Shape):
    """A model's files and artifacts."""

    model: str
    asks: dict[str, Any]
    """What model.yaml asks for."""
    artifacts: list[KnownArtifactJson]
    shown: str | None
    """The digest of the artifact that the other keys describe."""
    manifest: Manifest | None
    locked: LockedArtifact | None
    configs: dict[str, str]
    """config.pbtxt per model of the repository."""
    graph: list[str]
    undecided: list[str]
    """What a build will decide."""


class DeliveryJson(Shape):
    """The delivery order."""

    repository: str
    branch: str
    environments: list[str]
    affected: list[str]
    stages: dict[str, DeliveryStage]
    previews: dict[str, Any] | None


class PreviousDeployJson(Shape):
    """The commit of the last successful deploy; empty if there is none."""

    before: str


class ProposalJson(Shape):
    """A pull request with changed locks; null without changes."""

    proposal: LockProposal | None


class CommentJson(Shape):
    """A comment on a pull request."""

    about: str
    pull_request: int


class CloudJson(Shape):
    """A running local cloud."""

    endpoint_url: str
    pid: int | None
    profile: str
    environment: dict[str, str]
    """Variables that select it."""
    notices: list[str]


class CapabilitiesJson(Shape):
    """What the local cloud supports."""

    types: list[dict[str, Any]]
    """CloudFormation types."""
    actions: dict[str, list[str]]
    limits: list[dict[str, Any]]
    """What is accepted without all of its effect on AWS."""
    rejected: dict[str, Any]


class DownJson(Shape):
    """A local cloud that was stopped."""

    stopped: bool
    forgotten: bool
    """True if its state was removed."""


class DownAllJson(Shape):
    """Local clouds that were stopped."""

    stopped: list[str]
    forgotten: list[str]


class ServedVersionJson(Shape):
    """A version of a model that `dev` serves; one document per version."""

    number: int
    url: str
    request: str
    seconds: float
    differences: list[str]
    """Differences from model.yaml."""


class DevErrorFactsJson(Shape):
    """Why a version cannot be served."""

    code: str | None
    message: str
    remedy: str = Field(default="")


class DevErrorJson(Shape):
    """A version of a model that cannot be built or served; the former one keeps serving."""

    error: DevErrorFactsJson
