"""What CloudFormation remembers: stacks, their resources, their events, their change sets."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from local_cloud.cloudformation.changes import Change, ResourceState
from local_cloud.cloudformation.evaluation import Evaluation, StackIdentity
from local_cloud.cloudformation.parameters import Parameter
from local_cloud.cloudformation.template import Template


@dataclass(frozen=True)
class Event:
    """One line of a stack's history."""

    event_id: str
    timestamp: datetime
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None


@dataclass(frozen=True)
class ResourceStatus:
    """The last thing that happened to a resource."""

    status: str
    reason: str | None
    timestamp: datetime
    physical_id: str
    type: str


@dataclass(frozen=True)
class Output:
    """One output of a stack, with the name it is exported under."""

    key: str
    value: str
    description: str | None
    export: str | None

    def described(self) -> dict[str, str]:
        """Return the output as DescribeStacks shows it."""
        shown = {"OutputKey": self.key, "OutputValue": self.value}
        if self.description is not None:
            shown["Description"] = self.description
        if self.export is not None:
            shown["ExportName"] = self.export
        return shown


@dataclass
class Step:
    """One thing that a deployment did to a resource, remembered so that it can be undone."""

    logical_id: str
    type: str
    before: ResourceState | None
    after: ResourceState | None = None

    @property
    def made(self) -> bool:
        """Whether the step made a resource, in place of another or not."""
        return self.before is None or (
            self.after is not None and self.before.physical_id != self.after.physical_id
        )


@dataclass(frozen=True)
class StackSettings:
    """What a caller says about a stack beside its template and parameters."""

    tags: Mapping[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    capabilities: tuple[str, ...] = ()
    disable_rollback: bool = False


@dataclass(frozen=True)
class Proposal:
    """A template evaluated for a stack: everything that a deployment needs to know."""

    template: Template
    parameters: Mapping[str, Parameter]
    settings: StackSettings
    evaluation: Evaluation
    changes: tuple[Change, ...]
    changes_anything: bool

    @property
    def imports(self) -> frozenset[str]:
        """Logical ids of the resources that exist already and are taken into the stack."""
        return frozenset(change.logical_id for change in self.changes if change.action == "Import")


@dataclass
class ChangeSet:
    """A proposal that waits to be executed."""

    change_set_id: str
    name: str
    type: str
    description: str | None
    created: datetime
    proposal: Proposal
    status: str
    reason: str | None
    execution_status: str


@dataclass
class Stack:
    """One stack. Everything below `lock` is changed by the worker that deploys it."""

    identity: StackIdentity
    created: datetime
    template: Template | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    settings: StackSettings = field(default_factory=StackSettings)
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    updated: datetime | None = None
    deleted: datetime | None = None
    termination_protection: bool = False
    change_set_id: str | None = None
    resources: dict[str, ResourceState] = field(default_factory=dict)
    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    imports: frozenset[str] = frozenset()
    events: list[Event] = field(default_factory=list)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    unfinished: tuple[Step, ...] = ()
    broken: list[ResourceState] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    worker: threading.Thread | None = field(default=None, repr=False)

    @property
    def in_progress(self) -> bool:
        """Whether a worker is busy with this stack."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def exports(self) -> dict[str, str]:
        """Name and value of everything this stack exports."""
        return {output.export: output.value for output in self.outputs if output.export is not None}

    def retire_change_sets(self) -> None:
        """Make the change sets that wait out of date, as the stack is about to change under them."""
        for change_set in self.change_sets.values():
            if change_set.execution_status == "AVAILABLE":
                change_set.execution_status = "OBSOLETE"

    def set_status(self, status: str, *, reason: str | None = None) -> None:
        """Change the stack's status and say so in its history."""
        with self.lock:
            self.status, self.reason = status, reason
            self._add_event(self.identity.name, self.identity.stack_id, "AWS::CloudFormation::Stack", reason)

    def set_resource_status(
        self, logical_id: str, *, type_name: str, physical_id: str, status: str, reason: str | None = None
    ) -> None:
        """Change a resource's status and say so in the stack's history."""
        with self.lock:
            now = timestamp()
            self.statuses[logical_id] = ResourceStatus(status, reason, now, physical_id, type_name)
            self.events.append(
                Event(f"{logical_id}-{uuid.uuid4()}", now, logical_id, physical_id, type_name, status, reason)
            )

    def _add_event(self, logical_id: str, physical_id: str, type_name: str, reason: str | None) -> None:
        event_id = str(uuid.uuid4())
        self.events.append(
            Event(event_id, timestamp(), logical_id, physical_id, type_name, self.status, reason)
        )


def timestamp() -> datetime:
    """Return the present, as CloudFormation writes it down."""
    return datetime.now(UTC)
