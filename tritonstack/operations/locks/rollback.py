"""Plan rollbacks: the target version, the entries to restore, and the affected endpoints.

Pure. A restored entry records that it was restored and what it replaced. So a rerun can recognize an
unfinished rollback, and no rollback restores an artifact that was rolled back before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tritonstack.base.revisions import short_commit
from tritonstack.operations.locks.rollback_targets import (
    RollbackError,
    RollbackStep,
    Slot,
    named_target,
    previous_target,
    state_by,
    unfinished_rollback,
)
from tritonstack.operations.locks.versions import LockHistory
from tritonstack.project.custom_images import endpoint_image
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import LockChange
from tritonstack.records.locks import RolledBack


@dataclass(frozen=True)
class RollbackPlan:
    """The plan of a rollback."""

    endpoint: str
    origin: str
    """The git version of the entries."""
    steps: tuple[RollbackStep, ...]
    concerned: tuple[str, ...]
    """All endpoints that this rollback changes."""
    written: RolledBack | None = None
    """The rollback in the lock, if it is already written and may be incomplete."""

    @property
    def others(self) -> tuple[str, ...]:
        """Return the other endpoints that are rolled back too."""
        return tuple(name for name in self.concerned if name != self.endpoint)


def plan_rollback(
    workspace: Workspace, endpoint: str, history: LockHistory, *, to: str | None = None
) -> RollbackPlan:
    """Plan a rollback to `to`, a commit or digest, or to what the endpoint served before.

    If the last change was an unfinished rollback, return that plan.
    """
    now = state_by(workspace.lock.record, workspace, endpoint)
    if to is not None:
        origin, steps = named_target(endpoint, history, now, to)
        if steps:
            return _plan(workspace, endpoint, origin, steps)
    written = unfinished_rollback(history, now)
    if written is not None:
        steps, back = written
        return _plan(workspace, endpoint, "the lock as already written", steps, written=back)
    if to is not None:
        raise RollbackError(
            f"endpoint {endpoint!r} already serves the artifacts of {to}",
            remedy="choose another commit or digest: `tritonstack history` lists them",
        )
    version, steps = previous_target(endpoint, history, now)
    return _plan(workspace, endpoint, version.description, steps)


def earlier_target(workspace: Workspace, endpoint: str, history: LockHistory) -> str | None:
    """Return the commit of the last version that was not rolled back, if any."""
    now = state_by(workspace.lock.record, workspace, endpoint)
    try:
        version, _ = previous_target(endpoint, history, now)
    except RollbackError:
        return None
    return short_commit(version.commit.id) if version.commit else None


def entries_to_write(workspace: Workspace, plan: RollbackPlan, rolled_back: RolledBack) -> list[LockChange]:
    """Return the changes of the lock; `rolled_back` is the user and time."""
    changes = []
    for step in plan.steps:
        name, key = step.slot.name, step.then.key
        update = {"instead_of": step.now.entry.digest, "as_of": _as_of(workspace, step.slot, key)}
        entry = step.then.entry.model_copy(update={"rolled_back": rolled_back.model_copy(update=update)})
        changes.append(LockChange.of(workspace.lock.record, name, key, entry))
    return changes


def as_planned(workspace: Workspace, plan: RollbackPlan, rolled_back: RolledBack) -> Workspace:
    """Return the workspace after the rollback, for checks."""
    lock = workspace.lock.record
    for change in entries_to_write(workspace, plan, rolled_back):
        lock = lock.with_entry(change.name, change.key, change.entry)
    return replace(workspace, lock=replace(workspace.lock, record=lock))


def _plan(
    workspace: Workspace,
    endpoint: str,
    origin: str,
    steps: Iterable[RollbackStep],
    *,
    written: RolledBack | None = None,
) -> RollbackPlan:
    plan = RollbackPlan(endpoint, origin, tuple(steps), (endpoint,), written)
    places = {(step.slot.name, step.slot.image, step.then.key) for step in plan.steps}
    placeholder = RolledBack(instead_of="", as_of="", by="", at="2000-01-01T00:00:00Z")
    after = workspace if written else as_planned(workspace, plan, placeholder)
    concerned = [
        name
        for name in workspace.spec.endpoints
        for slot, served in state_by(after.lock.record, after, name).items()
        if served and (slot.name, slot.image, served.key) in places
    ]
    return replace(plan, concerned=tuple(dict.fromkeys(concerned)))


def _as_of(workspace: Workspace, slot: Slot, key: str) -> str:
    """Return the digests of the current files' builds."""
    if not slot.image:
        return workspace.hashes[slot.name]
    return endpoint_image(workspace.project, workspace.spec, slot.name, gpu=key == "gpu").tag
