"""What this SageMaker remembers: frozen records, replaced as a whole under one lock per table.

An endpoint's states, and the only ways from one to another:

    Creating ──> InService ──> Updating ──> InService       a failed update comes back with the old config
        └──────> Failed            InService, Failed ──> Deleting ──> gone
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

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


@dataclass(frozen=True)
class Place:
    """An account in a region; names are unique within it."""

    account: str
    region: str

    @property
    def partition(self) -> str:
        """The part of AWS that the region belongs to."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    def arn(self, kind: str, name: str) -> str:
        """Build the ARN of a SageMaker resource here; AWS writes its names in small letters."""
        return f"arn:{self.partition}:sagemaker:{self.region}:{self.account}:{kind}/{name.lower()}"

    def log_group_arn(self, group: str) -> str:
        """Build the ARN of a log group here."""
        return f"arn:{self.partition}:logs:{self.region}:{self.account}:log-group:{group}"


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


Record = TypeVar("Record", StoredRecord, EndpointRecord)


class Table(Generic[Record]):
    """Records of one kind by place and name. Every method is atomic."""

    def __init__(self) -> None:
        self._records: dict[tuple[Place, str], Record] = {}
        self._lock = threading.Lock()

    def add(self, place: Place, record: Record) -> bool:
        """Add a record unless there is one of its name; say whether it was added."""
        with self._lock:
            key = (place, record.name)
            return self._records.setdefault(key, record) is record

    def get(self, place: Place, name: str) -> Record | None:
        """Find a record."""
        return self._records.get((place, name))

    def change(self, place: Place, name: str, step: Callable[[Record], Record]) -> Record | None:
        """Replace a record by what `step` makes of it; a step that raises changes nothing."""
        with self._lock:
            record = self._records.get((place, name))
            if record is None:
                return None
            changed = step(record)
            self._records[place, name] = changed
            return changed

    def remove(self, place: Place, name: str) -> Record | None:
        """Remove a record and return it."""
        with self._lock:
            return self._records.pop((place, name), None)

    def within(self, place: Place) -> list[Record]:
        """List the records of one place."""
        return [record for where, record in self.everywhere() if where == place]

    def everywhere(self) -> list[tuple[Place, Record]]:
        """List all records with their places."""
        with self._lock:
            return [(place, record) for (place, _), record in self._records.items()]


class Tags:
    """Tags by ARN, in the order in which they were given."""

    def __init__(self) -> None:
        self._tags: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()

    def put(self, arn: str, tags: list[Mapping[str, str]]) -> None:
        """Add tags or replace those of the same key."""
        with self._lock:
            self._tags.setdefault(arn, {}).update({tag["Key"]: tag["Value"] for tag in tags})

    def drop(self, arn: str, keys: list[str]) -> None:
        """Remove the tags of these keys."""
        with self._lock:
            for key in keys:
                self._tags.get(arn, {}).pop(key, None)

    def forget(self, arn: str) -> None:
        """Remove every tag of a resource that has gone."""
        with self._lock:
            self._tags.pop(arn, None)

    def of(self, arn: str) -> list[dict[str, str]]:
        """List a resource's tags."""
        with self._lock:
            return [{"Key": key, "Value": value} for key, value in self._tags.get(arn, {}).items()]


@dataclass(frozen=True)
class Store:
    """All tables of this SageMaker."""

    models: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    configs: Table[StoredRecord] = field(default_factory=Table[StoredRecord])
    endpoints: Table[EndpointRecord] = field(default_factory=Table[EndpointRecord])
    tags: Tags = field(default_factory=Tags)
