"""CloudFormation's records: stacks, resources, events, and change sets."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tritonstack_local.cloudformation.changes import Change, ResourceState
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.evaluation import Evaluation, StackIdentity
from tritonstack_local.cloudformation.template import StackParameter, StackTemplate
from tritonstack_local.scope import Scope
from tritonstack_local.state.pickling import dumps
from tritonstack_local.state.writer import OnChange, not_persisted


@dataclass(frozen=True)
class StackEvent:
    """One line of a stack's history; the last one of a resource is its status."""

    event_id: str
    timestamp: datetime
    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None


@dataclass(eq=False)
class StackStep:
    """One change of a resource by a deployment, recorded before it starts, so that it can be undone.

    The physical id in `after` is empty until it is known.
    """

    before: ResourceState | None
    after: ResourceState

    @property
    def logical_id(self) -> str:
        """The resource's logical id."""
        return self.after.logical_id

    @property
    def made(self) -> bool:
        """Whether the step creates a resource, including replacements."""
        return self.before is None or self.before.physical_id != self.after.physical_id


@dataclass(frozen=True)
class Leftover:
    """A resource that left its stack and is still to be deleted or retained."""

    state: ResourceState
    retain: bool


@dataclass(frozen=True)
class StackSettings:
    """Settings of a stack other than template and parameters."""

    tags: Mapping[str, str] = field(default_factory=dict)
    role_arn: str | None = None
    capabilities: tuple[str, ...] = ()

    def tag_pairs(self) -> list[dict[str, str]]:
        """Return the tags as the API lists them."""
        return [{"Key": key, "Value": value} for key, value in self.tags.items()]


@dataclass(frozen=True)
class Proposal:
    """A template evaluated for a stack: the input of a deployment."""

    settings: StackSettings
    evaluation: Evaluation
    changes: tuple[Change, ...]
    changes_anything: bool


@dataclass
class ChangeSet:
    """A proposal to be executed later."""

    change_set_id: str
    name: str
    description: str | None
    created: datetime
    proposal: Proposal
    status: str
    reason: str | None
    execution_status: str


_OF_THIS_PROCESS = {"lock", "cancelled", "worker", "on_change"}


@dataclass
class Stack:
    """One stack; change it only within `changing`. Fields after `lock` are not persisted."""

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
    statuses: dict[str, StackEvent] = field(default_factory=dict)
    outputs: Sequence[Mapping[str, str]] = ()
    """As DescribeStacks returns them."""
    events: list[StackEvent] = field(default_factory=list)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    unfinished: list[StackStep] = field(default_factory=list)
    leftovers: list[Leftover] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    worker: threading.Thread | None = field(default=None, repr=False)
    on_change: Callable[[], None] = field(default=lambda: None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THIS_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Stack(state["identity"], state["created"])) | state)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change several fields atomically, and report the change to the state writer."""
        with self.lock:
            yield
            self.on_change()

    @property
    def in_progress(self) -> bool:
        """Whether an operation on this stack is in progress."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def adopt(self, proposal: Proposal) -> None:
        """Apply the stack settings of a proposal."""
        with self.changing():
            self.template, self.parameters = proposal.evaluation.template, proposal.evaluation.parameters
            self.settings = proposal.settings

    def undone(self, step: StackStep) -> None:
        """Restore a resource's record from before a step; the step's new resource becomes a leftover."""
        with self.changing():
            self.unfinished.remove(step)
            if step.before is None:
                self.resources.pop(step.logical_id, None)
            else:
                self.resources[step.logical_id] = step.before
            if step.made:
                self._leave(step.after, retain=step.after.resource.deletion_policy == "Retain")

    def close_steps(self) -> None:
        """End a deployment: resources of its steps that are not in the stack become leftovers."""
        with self.changing():
            for step in reversed(self.unfinished):
                if step.made:
                    self._leave(step.after, retain=step.after.resource.deletion_policy == "Retain")
                if step.made and step.before is not None:
                    self._leave(step.before, retain=step.before.resource.update_replace_policy == "Retain")
            self.unfinished = []

    def _leave(self, state: ResourceState, *, retain: bool) -> None:
        held = [*self.resources.values(), *(leftover.state for leftover in self.leftovers)]
        name = (state.logical_id, state.physical_id)
        if state.physical_id and name not in {(other.logical_id, other.physical_id) for other in held}:
            self.leftovers.append(Leftover(state, retain))

    def set_status(self, status: str, *, reason: str | None = None) -> None:
        """Change the stack's status and record an event."""
        with self.changing():
            self.status, self.reason = status, reason
            identity = self.identity
            self._add_event(identity.name, identity.stack_id, "AWS::CloudFormation::Stack", status, reason)

    def set_resource_status(
        self, state: ResourceState, status: str, reason: str | None = None, *, event_only: bool = False
    ) -> None:
        """Record an event of a resource, and change its status unless it is removed."""
        with self.changing():
            event = self._add_event(state.logical_id, state.physical_id, state.type, status, reason)
            if not event_only:
                self.statuses[state.logical_id] = event

    def _add_event(
        self, logical_id: str, physical_id: str, kind: str, status: str, reason: str | None
    ) -> StackEvent:
        event_id = f"{logical_id}-{uuid.uuid4()}"
        event = StackEvent(event_id, timestamp(), logical_id, physical_id, kind, status, reason)
        self.events.append(event)
        return event


def timestamp() -> datetime:
    """Return the current time in CloudFormation's format."""
    return datetime.now(UTC)


class StackStore:
    """All stacks, including deleted ones, which can still be described by id."""

    def __init__(self) -> None:
        self.on_change: OnChange = not_persisted
        self._by_id: dict[str, Stack] = {}
        self._latest: dict[tuple[Scope, str], Stack] = {}
        """The newest stack of each name, which may be deleted."""
        self._lock = threading.Lock()

    def add(self, scope: Scope, stack: Stack) -> None:
        """Add a new stack unless its name is in use."""
        with self._lock:
            self.require_unused(scope, stack.identity.name)
            self.load(stack.identity.stack_id, stack)
        stack.on_change()

    def require_unused(self, scope: Scope, name: str) -> None:
        """Raise an error if a stack has this name."""
        if self.find(scope, name) is not None:
            raise CloudFormationError(f"Stack [{name}] already exists", code="AlreadyExistsException")

    def piece_keys(self) -> list[str]:
        """List the stacks for the state writer."""
        return list(self._by_id)

    def dump(self, key: str) -> bytes | None:
        """Pickle a stack for the state writer."""
        stack = self._by_id[key]
        with stack.lock:
            return dumps(stack)

    def load(self, key: str, value: Stack) -> None:
        """Restore a stack from the saved state, which has them in the order of their creation."""
        self._by_id[key] = self._latest[value.identity.scope, value.identity.name] = value
        value.on_change = self.on_change

    def stacks(self, scope: Scope | None = None) -> list[Stack]:
        """Return all stacks, or those of a scope, newest first."""
        stacks = reversed(list(self._by_id.values()))
        return [stack for stack in stacks if scope in {None, stack.identity.scope}]

    def living(self, scope: Scope | None = None) -> list[Stack]:
        """Return all stacks, or those of a scope, that are not deleted."""
        return [stack for stack in self.stacks(scope) if stack.deleted is None]

    def find(self, scope: Scope, name_or_id: str) -> Stack | None:
        """Return an existing stack by name, or any stack by id."""
        latest = self._latest.get((scope, name_or_id))
        if latest is not None and latest.deleted is None:
            return latest
        stack = self._by_id.get(name_or_id)
        return stack if stack is not None and stack.identity.scope == scope else None

    def get(self, scope: Scope, name_or_id: str) -> Stack:
        """Return a stack, or raise CloudFormation's error."""
        stack = self.find(scope, name_or_id)
        if stack is None:
            raise CloudFormationError(f"Stack with id {name_or_id} does not exist")
        return stack
