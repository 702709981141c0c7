"""SageMaker's records: plain data that is persisted; running processes are not part of it.

An endpoint's states, and the only ways from one to another:

    Creating ──> InService ──> Updating ──> InService       a failed update comes back with the old config,
        │            │            └──> RollingBack ──> InService                 by way of RollingBack
        └──────> Failed           Creating, InService, Failed ──> Deleting ──> gone

An endpoint that served when its cloud ended goes through SystemUpdating when the cloud starts again. One that
was Updating stays so: its old instances come back, and the update starts again.
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
    """Build the ARN of a resource of SageMaker's; AWS writes its names in small letters."""
    return scope.arn("sagemaker", f"{kind}/{name.lower()}")


@dataclass(frozen=True)
class StoredRecord:
    """A model or an endpoint configuration: the request that made it, never changed afterwards."""

    name: str
    arn: str
    created: datetime
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class UpdateStage:
    """What is being done to an endpoint's variants: SageMaker's VariantStatus."""

    status: StageStatus
    messages: Mapping[str, str]
    """What is told of each variant."""
    started: datetime


@dataclass(frozen=True)
class PendingUpdate:
    """What an endpoint is on its way to."""

    plan: EndpointPlan
    variants: tuple[VariantRecord, ...]
    deployment_config: Mapping[str, Any] | None
    started: datetime


@dataclass(frozen=True)
class EndpointRecord:
    """An endpoint as DescribeEndpoint shows it, and the plan that it runs."""

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
        """Return whether the state machine leads there from here."""
        return status in TRANSITIONS[self.status]

    def moved_to(self, status: Status, **changes: Any) -> EndpointRecord:
        """Take one step of the state machine, with other fields changed along with it."""
        if not self.can_become(status):
            raise ValueError(f"endpoint {self.name} cannot go from {self.status} to {status}")
        return replace(self, status=status, modified=now(), **changes)

    def settled(self, status: Status, **changes: Any) -> EndpointRecord:
        """Take a step after which nothing is on its way any more."""
        return self.moved_to(status, pending=None, stage=None, **changes)


@dataclass(frozen=True)
class SageMakerTables:
    """All tables of this SageMaker."""

    models: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    configs: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    endpoints: Table[EndpointRecord] = field(default_factory=Table[EndpointRecord])
    tags: Tags = field(default_factory=Tags)
