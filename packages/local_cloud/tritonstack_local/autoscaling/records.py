"""Records of Application Auto Scaling: plain data that is persisted.

An activity goes from Pending (to be sent) to InProgress (accepted by SageMaker) to Successful or Failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from tritonstack.reference.scaling_rules import VARIANT_DIMENSION
from tritonstack_local.service.tables import Table, Tags

NAMESPACE = "sagemaker"
ActivityStatus = Literal["Pending", "InProgress", "Successful", "Failed"]
Direction = Literal["out", "in"]


class TargetId(NamedTuple):
    """What is scaled."""

    resource: str
    """ResourceId: endpoint/<endpoint>/variant/<variant>."""
    dimension: str

    @property
    def name(self) -> str:
        """A name that is unique within a scope."""
        return f"{self.dimension}|{self.resource}"

    @property
    def variant(self) -> tuple[str, str] | None:
        """The endpoint and the variant; None for inference components, which run on AWS only."""
        parts = self.resource.split("/")
        is_variant = self.dimension == VARIANT_DIMENSION and len(parts) == 4
        return (
            (parts[1], parts[3]) if is_variant and (parts[0], parts[2]) == ("endpoint", "variant") else None
        )


@dataclass(frozen=True, kw_only=True)
class Cooldown:
    """The period after a scaling activity of a policy."""

    direction: Direction
    base: int
    """The capacity before the activity."""
    ends: float
    """Seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class TargetRecord:
    """A scalable target."""

    id: TargetId
    arn: str
    created: datetime
    minimum: int
    maximum: int
    role_arn: str
    suspended: Mapping[str, bool]
    """SuspendedState."""
    cooldown: Cooldown | None = None
    due: bool = False
    """Whether the capacity must still be brought between the limits."""
    attached: bool = False
    """Whether its endpoint has existed since it was registered."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.id.name

    def suspends(self, part: str) -> bool:
        """Return whether a part of SuspendedState is set."""
        return bool(self.suspended.get(part, False))


@dataclass(frozen=True, kw_only=True)
class PolicyRecord:
    """A scaling policy."""

    target: TargetId
    policy: str
    """PolicyName."""
    arn: str
    kind: str
    """PolicyType."""
    configuration: Mapping[str, Any]
    created: datetime
    high: str | None = None
    """Name of its scale-out alarm."""
    low: str | None = None
    """Name of its scale-in alarm."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.target.name}|{self.policy}"

    @property
    def alarms(self) -> list[str]:
        """The names of the alarms that belong to it."""
        return [name for name in (self.high, self.low) if name is not None]


@dataclass(frozen=True, kw_only=True)
class ScheduledRecord:
    """A scheduled action. Its calendar starts when it is put."""

    target: TargetId
    action: str
    """ScheduledActionName."""
    arn: str
    created: datetime
    schedule: str
    timezone: str | None
    start: float | None
    end: float | None
    limits: Mapping[str, int]
    """ScalableTargetAction."""
    since: float
    """When it was put, in seconds since 1970."""
    done: float
    """Time in its calendar until which it has run."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.target.name}|{self.action}"


@dataclass(frozen=True, kw_only=True)
class ActivityRecord:
    """One entry of the history."""

    name: str
    """ActivityId."""
    target: TargetId
    description: str
    cause: str
    started: datetime
    status: ActivityStatus
    ended: datetime | None = None
    message: str | None = None
    details: str | None = None
    reasons: tuple[Mapping[str, Any], ...] = ()
    """NotScaledReasons."""
    wanted: int | None = None
    """The instance count to set."""
    base: int = 0
    """The instance count before."""
    cooldown_s: float | None = None
    """Cooldown of its policy, in seconds on AWS; None without a policy."""

    @property
    def running(self) -> bool:
        """Whether it still waits for SageMaker."""
        return self.status in {"Pending", "InProgress"}


@dataclass(frozen=True)
class AutoScalingTables:
    """All tables of Application Auto Scaling."""

    targets: Table[TargetRecord] = field(default_factory=Table[TargetRecord])
    policies: Table[PolicyRecord] = field(default_factory=Table[PolicyRecord])
    scheduled: Table[ScheduledRecord] = field(default_factory=Table[ScheduledRecord])
    activities: Table[ActivityRecord] = field(default_factory=Table[ActivityRecord])
    tags: Tags = field(default_factory=Tags)
