"""What this SageMaker remembers.

An endpoint's states, and the only ways from one to another:

    Creating ──> InService ──> Updating ──> InService       a failed update comes back with the old config
        └──────> Failed            InService, Failed ──> Deleting ──> gone
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from local_cloud.places import Place
from local_cloud.tables import Table, Tags

Status = Literal["Creating", "InService", "Updating", "Failed", "Deleting"]

TRANSITIONS: dict[Status, frozenset[Status]] = {
    "Creating": frozenset({"InService", "Failed"}),
    "InService": frozenset({"Updating", "Deleting"}),
    "Updating": frozenset({"InService"}),
    "Failed": frozenset({"Deleting"}),
    "Deleting": frozenset(),
}


def now() -> datetime:
    """Read the clock, time zone included."""
    return datetime.now(UTC)


def arn_of(place: Place, kind: str, name: str) -> str:
    """Build the ARN of a resource of SageMaker's; AWS writes its names in small letters."""
    return place.arn("sagemaker", f"{kind}/{name.lower()}")


@dataclass(frozen=True)
class StoredRecord:
    """A model or an endpoint configuration: the request that made it, never changed afterwards."""

    name: str
    arn: str
    created: datetime
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Capacity:
    """What was asked of a variant; one Triton serves it, whatever the count."""

    instance_count: int
    weight: float


@dataclass(frozen=True)
class VariantRecord:
    """A production variant as DescribeEndpoint shows it."""

    name: str
    image: str
    instance_type: str
    capacity: Capacity


@dataclass(frozen=True)
class PendingUpdate:
    """An update on its way."""

    config_name: str
    started: datetime


@dataclass(frozen=True)
class EndpointRecord:
    """An endpoint as DescribeEndpoint shows it."""

    name: str
    arn: str
    config_name: str
    status: Status
    created: datetime
    modified: datetime
    variants: tuple[VariantRecord, ...]
    data_capture: Mapping[str, Any] | None = None
    failure_reason: str | None = None
    deployment_config: Mapping[str, Any] | None = None
    pending: PendingUpdate | None = None

    def can_become(self, status: Status) -> bool:
        """Say whether the state machine leads there from here."""
        return status in TRANSITIONS[self.status]

    def moved_to(self, status: Status, **changes: Any) -> EndpointRecord:
        """Take one step of the state machine, with other fields changed along with it."""
        if not self.can_become(status):
            raise ValueError(f"endpoint {self.name} cannot go from {self.status} to {status}")
        return replace(self, status=status, modified=now(), **changes)


@dataclass(frozen=True)
class Store:
    """All tables of this SageMaker."""

    models: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    configs: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    endpoints: Table[EndpointRecord] = field(default_factory=Table[EndpointRecord])
    tags: Tags = field(default_factory=Tags)
