"""SageMaker's records and plans: plain data that is persisted; running processes are not part of it.

An endpoint's states and the transitions:

    Creating ──> InService ──> Updating ──> InService       a failed update returns to the old config
        │            │            └──> RollingBack ──> InService                 through RollingBack
        └──────> Failed           Creating, InService, Failed ──> Deleting ──> gone

After a restart of the cloud, what was InService or being updated goes through SystemUpdating: it starts with
its last configuration in service, and an interrupted update is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from tritonstack_local.cloudwatch.store import METRICS, MetricKey
from tritonstack_local.scope import Scope
from tritonstack_local.service.tables import Table, Tags


def now() -> datetime:
    """Return the current time with time zone."""
    return datetime.now(UTC)


LEAST_OUTSTANDING, RANDOM = "LEAST_OUTSTANDING_REQUESTS", "RANDOM"


class VariantKey(NamedTuple):
    """A variant of an endpoint, which metrics belong to."""

    scope: Scope
    endpoint: str
    variant: str

    def measure(
        self,
        name: str,
        value: float,
        unit: str = "None",
        *,
        namespace: str = "AWS/SageMaker",
        at: float | None = None,
        times: int = 1,
    ) -> None:
        """Publish a value that occurred so many times."""
        dimensions = frozenset({("EndpointName", self.endpoint), ("VariantName", self.variant)})
        key, moment = MetricKey(namespace, name, dimensions), time.time() if at is None else at
        METRICS.add(self.scope, key, unit, value, at=moment, times=times)


@dataclass(frozen=True)
class DeploymentPlan:
    """The plan of one variant's servers."""

    scope: Scope
    endpoint: str
    variant: str
    image: str
    environment: Mapping[str, str]
    model_data_url: str | None
    """URL of the archive, or prefix of a multi-model server's archives."""
    download_timeout_s: float
    startup_timeout_s: float
    instance_type: str
    volume_gb: int | None
    """VolumeSizeInGB; None for SageMaker's default."""
    multi_model: bool = False
    model_cache: bool = True
    """Whether a multi-model server keeps models between requests."""
    capture: Mapping[str, Any] | None = None
    """Its DataCaptureConfig, if that is enabled."""
    routing: str = RANDOM
    """The routing strategy."""

    @property
    def key(self) -> VariantKey:
        """The variant."""
        return VariantKey(self.scope, self.endpoint, self.variant)

    @property
    def container(self) -> str:
        """The container's name in SageMaker's error messages."""
        return "model" if self.multi_model else "primary"


@dataclass(frozen=True)
class VariantRecord:
    """A production variant: its plan and its requested capacity."""

    plan: DeploymentPlan
    instance_count: int
    weight: float

    @property
    def name(self) -> str:
        """The name of the variant."""
        return self.plan.variant


@dataclass(frozen=True)
class EndpointPlan:
    """The plan of an endpoint, independent of its configuration and models, which may be deleted."""

    scope: Scope
    endpoint: str
    config_name: str
    variants: tuple[VariantRecord, ...]
    data_capture: Mapping[str, Any] | None


def counts_of(variants: tuple[VariantRecord, ...]) -> dict[str, int]:
    """Return the requested instance count per variant."""
    return {variant.name: variant.instance_count for variant in variants}


def weights_of(variants: tuple[VariantRecord, ...]) -> dict[str, float]:
    """The weights of the variants."""
    return {variant.name: variant.weight for variant in variants}


Status = Literal["Creating", "InService", "Updating", "RollingBack", "SystemUpdating", "Failed", "Deleting"]

StageStatus = Literal["Creating", "Updating", "Deleting", "ActivatingTraffic", "Baking"]

ALLOWED: dict[Status, frozenset[Status]] = {
    "Updating": frozenset({"InService"}),
    "Deleting": frozenset({"Creating", "InService", "Failed"}),
}
"""The states in which a caller may start an operation."""


def arn_of(scope: Scope, kind: str, name: str) -> str:
    """Return the ARN of a SageMaker resource; AWS writes names in lower case."""
    return scope.arn("sagemaker", f"{kind}/{name.lower()}")


@dataclass(frozen=True)
class StoredRecord:
    """A model or an endpoint configuration: its immutable create request."""

    name: str
    arn: str
    created: datetime
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class UpdateStage:
    """The status of an endpoint's variants: SageMaker's VariantStatus."""

    status: StageStatus
    messages: Mapping[str, str]
    """The status of each variant."""
    started: datetime


@dataclass(frozen=True)
class PendingUpdate:
    """The target of an endpoint's update."""

    plan: EndpointPlan
    variants: tuple[VariantRecord, ...]
    deployment_config: Mapping[str, Any] | None
    started: datetime


@dataclass(frozen=True)
class EndpointRecord:
    """An endpoint's record and its plan."""

    name: str
    arn: str
    status: Status
    created: datetime
    modified: datetime
    plan: EndpointPlan
    variants: tuple[VariantRecord, ...]
    failure_reason: str | None = None
    deployment_config: Mapping[str, Any] | None = None
    pending: PendingUpdate | None = None
    stage: UpdateStage | None = None

    def moved_to(self, status: Status, **changes: Any) -> EndpointRecord:
        """Make a transition, and change other fields with it."""
        return replace(self, status=status, modified=now(), **changes)

    def settled(self, status: Status, **changes: Any) -> EndpointRecord:
        """Make a transition that ends the current operation."""
        return self.moved_to(status, pending=None, stage=None, **changes)


@dataclass(frozen=True)
class SageMakerTables:
    """All tables of SageMaker."""

    models: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    configs: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    endpoints: Table[EndpointRecord] = field(default_factory=Table[EndpointRecord])
    tags: Tags = field(default_factory=Tags)
