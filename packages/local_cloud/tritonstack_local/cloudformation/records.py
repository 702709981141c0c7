"""CloudFormation's records: stacks, resources, events, and change sets."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tritonstack_local.cloudformation.deployments.changes import Change, ResourceState
from tritonstack_local.cloudformation.names import new_token
from tritonstack_local.cloudformation.templates.evaluation import Evaluation, StackIdentity
from tritonstack_local.cloudformation.templates.parameters import StackParameter
from tritonstack_local.cloudformation.templates.template import StackTemplate


@dataclass(frozen=True)
class StackEvent:
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
class StackOutput:
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
class StackStep:
    """One thing that a deployment does to a resource, written down before it is done, for undoing it.

    The physical id in `after` is empty until it is known.
    """

    logical_id: str
    type: str
    before: ResourceState | None
    after: ResourceState
    token: str = field(default_factory=new_token)
    """Tells this step's calls from all others; see state/receipts.py."""
    progress: Literal["under way", "done", "failed"] = "under way"

    @property
    def made(self) -> bool:
        """Whether the step makes a resource, in place of another or not."""
        return self.before is None or self.before.physical_id != self.after.physical_id


@dataclass(frozen=True)
class Leftover:
    """A resource that is no part of its stack any more and still has to go, or be let go."""

    state: ResourceState
    retain: bool


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

    template: StackTemplate
    parameters: Mapping[str, StackParameter]
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


_OF_THIS_PROCESS = {"lock", "cancelled", "worker", "tell"}


@dataclass
class Stack:
    """One stack, changed within `changing` alone. What follows `lock` lives in this process only."""

    identity: StackIdentity
    created: datetime
    template: StackTemplate | None = None
    parameters: Mapping[str, StackParameter] = field(default_factory=dict)
    settings: StackSettings = field(default_factory=StackSettings)
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    updated: datetime | None = None
    deleted: datetime | None = None
    termination_protection: bool = False
    change_set_id: str | None = None
    resources: dict[str, ResourceState] = field(default_factory=dict)
    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    outputs: tuple[StackOutput, ...] = ()
    imports: frozenset[str] = frozenset()
    events: list[StackEvent] = field(default_factory=list)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    unfinished: list[StackStep] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    keeps_failures: bool = False
    """Whether the deployment that is under way stays as it is if it fails."""
    retained: frozenset[str] = frozenset()
    """What the deletion that is under way leaves standing."""
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    worker: threading.Thread | None = field(default=None, repr=False)
    tell: Callable[[], None] = field(default=lambda: None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Stack(state["identity"], state["created"])) | state)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change several things as one; whoever keeps the stack hears of it."""
        with self.lock:
            yield
            self.tell()

    @property
    def in_progress(self) -> bool:
        """Whether a worker is busy with this stack."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def exports(self) -> dict[str, str]:
        """Name and value of everything this stack exports."""
        return {output.export: output.value for output in self.outputs if output.export is not None}

    def retire_change_sets(self) -> None:
        """Create the change sets that wait out of date, as the stack is about to change under them."""
        with self.changing():
            for change_set in self.change_sets.values():
                if change_set.execution_status == "AVAILABLE":
                    change_set.execution_status = "OBSOLETE"

    def adopt(self, proposal: Proposal) -> None:
        """Take over what a proposal says about the stack as a whole."""
        with self.changing():
            self.template, self.parameters = proposal.template, proposal.parameters
            self.settings = proposal.settings

    def begin(self, step: StackStep) -> StackStep:
        """Write a step down before it is done."""
        with self.changing():
            self.unfinished.append(step)
        return step

    def end(self, step: StackStep, **changes: Any) -> None:
        """Write down how a step ended, or how far it came."""
        with self.changing():
            vars(step).update(changes)

    def drop(self, step: StackStep) -> None:
        """Forget a step: it did nothing, or nothing of it is left."""
        with self.changing():
            self.unfinished.remove(step)

    def undone(self, step: StackStep) -> None:
        """Note that a resource is what it was before a step; what the step made is left over."""
        with self.changing():
            self.unfinished.remove(step)
            if step.before is None:
                self.resources.pop(step.logical_id, None)
            else:
                self.resources[step.logical_id] = step.before
            if step.made:
                self._leave(step.after, retain=step.after.deletion_policy == "Retain")

    def keep(self, state: ResourceState) -> None:
        """Note what a resource was brought to."""
        with self.changing():
            self.resources[state.logical_id] = state

    def close_steps(self) -> None:
        """End a deployment: what its steps made or replaced, and the stack does not hold, is left over."""
        with self.changing():
            for step in reversed(self.unfinished):
                if step.made:
                    self._leave(step.after, retain=step.after.deletion_policy == "Retain")
                if step.made and step.before is not None:
                    self._leave(step.before, retain=step.before.update_replace_policy == "Retain")
            self.unfinished = []

    def _leave(self, state: ResourceState, *, retain: bool) -> None:
        held = [*self.resources.values(), *(leftover.state for leftover in self.leftovers)]
        name = (state.logical_id, state.physical_id)
        if state.physical_id and name not in {(other.logical_id, other.physical_id) for other in held}:
            self.leftovers.append(Leftover(state, retain))

    def set_status(self, status: str, *, reason: str | None = None) -> None:
        """Change the stack's status and say so in its history."""
        with self.changing():
            self.status, self.reason = status, reason
            identity = self.identity
            self._add_event(identity.name, identity.stack_id, "AWS::CloudFormation::Stack", status, reason)

    def set_resource_status(
        self, state: ResourceState, status: str, reason: str | None = None, *, only_tell: bool = False
    ) -> None:
        """Change a resource's status and say so in the stack's history, or do the latter alone."""
        with self.changing():
            now = timestamp()
            if not only_tell:
                known = ResourceStatus(status, reason, now, state.physical_id, state.type)
                self.statuses[state.logical_id] = known
            self._add_event(state.logical_id, state.physical_id, state.type, status, reason)

    def _add_event(
        self, logical_id: str, physical_id: str, kind: str, status: str, reason: str | None
    ) -> None:
        event_id = f"{logical_id}-{uuid.uuid4()}"
        self.events.append(StackEvent(event_id, timestamp(), logical_id, physical_id, kind, status, reason))


def timestamp() -> datetime:
    """Return the present, as CloudFormation writes it down."""
    return datetime.now(UTC)
