"""Records of Application Auto Scaling: plain data that is persisted.

Each holds its `fields` as the API describes them, and beside them what the API does not show. A target holds
its policies and scheduled actions; its history outlives it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tritonstack.facts.scaling_rules import VARIANT_DIMENSION
from tritonstack_local.service.tables import Table, Tags

NAMESPACE = "sagemaker"
TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
CONFIGURATIONS: Mapping[str, str] = {
    STEPS: "StepScalingPolicyConfiguration",
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
}
Direction = Literal["out", "in"]


@dataclass(frozen=True, kw_only=True)
class ScalingRecord:
    """A target, or something that belongs to one."""

    resource: str
    """ResourceId of the target: endpoint/<endpoint>/variant/<variant>."""
    fields: Mapping[str, Any]

    @property
    def shown(self) -> Mapping[str, Any]:
        """The record as the API describes it."""
        key = {
            "ServiceNamespace": NAMESPACE,
            "ResourceId": self.resource,
            "ScalableDimension": VARIANT_DIMENSION,
        }
        return {**key, **self.fields}


@dataclass(frozen=True, kw_only=True)
class Cooldown:
    """The period after a scaling activity of a policy."""

    direction: Direction
    base: int
    """The capacity before the activity."""
    ends: float
    """Seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class PolicyRecord(ScalingRecord):
    """A scaling policy."""

    high: str | None = None
    """Name of its scale-out alarm."""
    low: str | None = None
    """Name of its scale-in alarm."""

    @property
    def name(self) -> str:
        """Its PolicyName."""
        return str(self.fields["PolicyName"])

    @property
    def arn(self) -> str:
        """The ARN that alarms name in their actions."""
        return str(self.fields["PolicyARN"])

    @property
    def kind(self) -> str:
        """Its PolicyType."""
        return str(self.fields["PolicyType"])

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration of its kind."""
        configuration: Mapping[str, Any] = self.fields[CONFIGURATIONS[self.kind]]
        return configuration

    @property
    def alarms(self) -> list[str]:
        """The names of the alarms that belong to it."""
        return [name for name in (self.high, self.low) if name is not None]


@dataclass(frozen=True, kw_only=True)
class ScheduledRecord(ScalingRecord):
    """A scheduled action. Its calendar starts when it is put."""

    since: float
    """When it was put, in seconds since 1970."""
    done: float
    """Time in its calendar until which it has run."""

    @property
    def name(self) -> str:
        """Its ScheduledActionName."""
        return str(self.fields["ScheduledActionName"])


@dataclass(frozen=True, kw_only=True)
class TargetRecord(ScalingRecord):
    """A scalable target."""

    policies: Mapping[str, PolicyRecord] = field(default_factory=dict)
    schedules: Mapping[str, ScheduledRecord] = field(default_factory=dict)
    due: float | None = 0.0
    """When to bring the capacity between the limits, in seconds since 1970; None if that is done."""
    cooldown: Cooldown | None = None
    attached: bool = False
    """Whether its endpoint has existed since it was registered."""
    activity: str = ""
    """The activity in progress."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.resource

    @property
    def variant(self) -> tuple[str, str]:
        """The endpoint and the variant."""
        _, endpoint, _, variant = self.resource.split("/")
        return endpoint, variant

    @property
    def arn(self) -> str:
        """Its ARN, which tags belong to."""
        return str(self.fields["ScalableTargetARN"])

    @property
    def limits(self) -> tuple[int, int]:
        """The minimum and the maximum capacity."""
        return self.fields["MinCapacity"], self.fields["MaxCapacity"]

    def suspends(self, part: str) -> bool:
        """Return whether a part of SuspendedState is set."""
        return bool(self.fields["SuspendedState"].get(part, False))


@dataclass(frozen=True, kw_only=True)
class ActivityRecord(ScalingRecord):
    """One entry of the history."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    wanted: int | None = None
    """The instance count to set."""
    base: int = 0
    """The instance count before."""
    cooldown_s: float | None = None
    """Cooldown of its policy, in seconds on AWS; None without a policy."""

    @property
    def shown(self) -> Mapping[str, Any]:
        """The record as the API describes it."""
        return {**super().shown, "ActivityId": self.id, "StartTime": self.started}


@dataclass(frozen=True)
class HistoryRecord:
    """The activities of a target, oldest first."""

    name: str
    """ResourceId."""
    entries: tuple[ActivityRecord, ...] = ()


@dataclass(frozen=True)
class AutoScalingTables:
    """All tables of Application Auto Scaling."""

    targets: Table[TargetRecord] = field(default_factory=Table[TargetRecord])
    histories: Table[HistoryRecord] = field(default_factory=Table[HistoryRecord])
    tags: Tags = field(default_factory=Tags)
