"""Takes deployments back: the rollback of one that failed, and the deletion of a stack."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from local_cloud.cloudformation.changes import ResourceState
from local_cloud.cloudformation.errors import CloudFormationError
from local_cloud.cloudformation.graph import in_order
from local_cloud.cloudformation.operations import Operations, reason_of
from local_cloud.cloudformation.records import Output, Stack, Step, timestamp
from local_cloud.cloudformation.scheduling import run_in_order

_log = logging.getLogger(__name__)

CheckOutputs = Callable[[Stack, tuple[Output, ...]], None]
"""Refuses outputs that clash with other stacks' exports, or that drop one in use."""


@dataclass(frozen=True)
class Rollback:
    """Takes a stack back to where it was before the deployment that failed."""

    operations: Operations
    skip: frozenset[str] = frozenset()

    def of_create(self) -> None:
        """Delete everything that was made."""
        stack = self.operations.stack
        made = [step.after for step in reversed(stack.unfinished) if step.after is not None]
        left = self._remove(made)
        with stack.lock:
            stack.resources = {state.logical_id: state for state in left}
            stack.outputs, stack.broken = (), []
            stack.unfinished = tuple(step for step in stack.unfinished if step.after in left)
        stack.set_status("ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE", reason=_left_behind(left))

    def of_update(self) -> None:
        """Change back what was changed, then delete what was made."""
        stack = self.operations.stack
        for step in reversed(stack.unfinished):
            if step.logical_id in self.skip:
                continue
            try:
                self.operations.change_back(step)
            except Exception as error:
                self._stuck(step, error)
                return
        made = [step.after for step in reversed(stack.unfinished) if step.made and step.after is not None]
        stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        self._remove(made)
        with stack.lock:
            stack.unfinished, stack.broken = (), []
        stack.set_status("UPDATE_ROLLBACK_COMPLETE")

    def _stuck(self, step: Step, error: Exception) -> None:
        stack = self.operations.stack
        state = step.before or step.after
        stack.set_resource_status(
            step.logical_id,
            type_name=step.type,
            physical_id=state.physical_id if state else "",
            status="UPDATE_FAILED",
            reason=reason_of(error),
        )
        stack.set_status(
            "UPDATE_ROLLBACK_FAILED",
            reason=f"The following resource(s) failed to update: [{step.logical_id}].",
        )

    def _remove(self, states: Iterable[ResourceState]) -> list[ResourceState]:
        left = []
        for state in states:
            statuses = self.operations.stack.statuses
            known = statuses.get(state.logical_id)
            try:
                self.operations.remove(state, retain=state.deletion_policy == "Retain")
            except Exception as error:
                _log.warning("%s could not be rolled back: %s", state.physical_id, reason_of(error))
                left.append(state)
            standing = self.operations.stack.resources.get(state.logical_id)
            if known is not None and standing is not None and standing.physical_id != state.physical_id:
                statuses[state.logical_id] = known
        return left


@dataclass(frozen=True)
class Deletion:
    """Deletes a stack with all its resources."""

    operations: Operations
    retain: frozenset[str]
    check_outputs: CheckOutputs

    def run(self) -> None:
        """Delete in reverse dependency order; what cannot go leaves the stack in DELETE_FAILED."""
        stack = self.operations.stack
        try:
            self.check_outputs(stack, ())
        except CloudFormationError as error:
            stack.set_status("DELETE_FAILED", reason=error.message)
            return
        failures = self._remove_all()
        failures += self._remove_broken()
        if failures:
            names = ", ".join(sorted(failures))
            stack.set_status(
                "DELETE_FAILED", reason=f"The following resource(s) failed to delete: [{names}]."
            )
            return
        with stack.lock:
            stack.outputs, stack.imports = (), frozenset()
            stack.deleted = timestamp()
        stack.set_status("DELETE_COMPLETE")

    def _remove_all(self) -> list[str]:
        stack = self.operations.stack

        def act(logical_id: str) -> None:
            state = stack.resources[logical_id]
            retain = state.deletion_policy != "Delete" or logical_id in self.retain
            self.operations.remove(state, retain=retain)
            with stack.lock:
                del stack.resources[logical_id]

        failures = run_in_order(_needed_by(stack.resources), act, may_start=lambda _failed: True)
        for error in failures.values():
            _log.warning("deletion failed: %s", reason_of(error))
        return list(failures)

    def _remove_broken(self) -> list[str]:
        stack, left = self.operations.stack, []
        for state in stack.broken:
            try:
                self.operations.remove(state, retain=False)
            except Exception as error:
                _log.warning("deletion failed: %s", reason_of(error))
                left.append(state)
        stack.broken = left
        return [state.logical_id for state in left]


def _needed_by(resources: dict[str, ResourceState]) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(other for other, state in resources.items() if name in state.depends_on)
        for name in resources
    }


def newest_first(resources: dict[str, ResourceState]) -> list[ResourceState]:
    """Return resources so that each comes before everything it needs."""
    graph = {name: state.depends_on & resources.keys() for name, state in resources.items()}
    return [resources[name] for name in reversed(in_order(graph))]


def _left_behind(left: list[ResourceState]) -> str | None:
    names = ", ".join(sorted(state.logical_id for state in left))
    return f"The following resource(s) failed to delete: [{names}]." if left else None
