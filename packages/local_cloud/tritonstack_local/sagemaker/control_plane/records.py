"""SageMaker's records: plain data that is persisted; running processes are not part of it.

An endpoint's states and the allowed transitions:

    Creating ──> InService ──> Updating ──> InService       a failed update returns to the old config
        │            │            └──> RollingBack ──> InService                 through RollingBack
        └──────> Failed           Creating, InService, Failed ──> Deleting ──> gone

After a restart of the cloud, endpoints in service go through SystemUpdating. Endpoints in Updating stay so:
their old instances are started, then the update starts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from tritonstack_local.identity.scope import Scope
from tritonstack_local.sagemaker.control_plane.clock import now
from tritonstack_local.sagemaker.control_plane.plans import EndpointPlan, VariantRecord
from tritonstack_local.service.tables import Table, Tags

Status = Literal["Creating", "InService", "Updating", "RollingBack", "SystemUpdating", "Failed", "Deleting"]

StageStatus = Literal["Creating", "Updating", "Deleting", "ActivatingTraffic", "Baking"]

TRANSITIONS: dict[Status, frozenset[Status]] = {
    "Creating": frozenset({"InService", "Failed", "Deleting"}),
    "InService": frozenset({"Updating", "Deleting", "SystemUpdating"}),
    "Updating": frozenset({"InService", "RollingBack", "SystemUpdating"}),
    "RollingBack": frozenset({"InService", "SystemUpdating"}),
    "SystemUpdating": frozenset({"InService", "Failed", "SystemUpdating"}),
    "Failed": frozenset({"Deleting"}),
    "Deleting": frozenset(),
}


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

    def can_become(self, status: Status) -> bool:
        """Return whether the state machine allows the transition."""
        return status in TRANSITIONS[self.status]

    def moved_to(self, status: Status, **changes: Any) -> EndpointRecord:
        """Make a transition, and change other fields with it."""
        if not self.can_become(status):
            raise ValueError(f"endpoint {self.name} cannot go from {self.status} to {status}")
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
