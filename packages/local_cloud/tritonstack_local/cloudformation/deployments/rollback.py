"""Roll back failed deployments, delete stacks, and remove leftover resources.

They work on the recorded steps of a stack and record their own progress, so that the next cloud can continue
them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tritonstack_local.cloudformation.changes import ResourceState
from tritonstack_local.cloudformation.deployments.operations import Operations, reason_of
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Leftover, Stack, StackStep, timestamp
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.cloudformation.templates.graph import in_order, run_in_order

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StackRollback:
    """Restores a stack to its state before a failed deployment."""

    operations: Operations
    skip: frozenset[str] = frozenset()

    def of_create(self) -> None:
        """Delete everything that was created."""
        stack = self.operations.stack
        with stack.changing():
            stack.resources, stack.outputs = {}, ()
            stack.close_steps()
        left = remove_leftovers(self.operations)
        stack.set_status("ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE", reason=_left_behind(left))

    def of_update(self) -> None:
        """Revert changes, then delete created resources."""
        stack = self.operations.stack
        for step in reversed(stack.unfinished.copy()):
            try:
                if step.logical_id not in self.skip or step.before is None:
                    self.operations.revert(step)
            except Exception as error:
                self._stuck(step, error)
                return
            stack.undone(step)
        stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        self.clean_up()

    def clean_up(self) -> None:
        """Delete created resources after all changes are reverted."""
        forget_leftovers(self.operations)
        self.operations.stack.set_status("UPDATE_ROLLBACK_COMPLETE")

    def _stuck(self, step: StackStep, error: Exception) -> None:
        stack = self.operations.stack
        stack.set_resource_status(step.before or step.after, "UPDATE_FAILED", reason_of(error))
        stack.set_status(
            "UPDATE_ROLLBACK_FAILED",
            reason=f"The following resource(s) failed to update: [{step.logical_id}].",
        )


@dataclass(frozen=True)
class StackDeletion:
    """Deletes a stack and its resources, except retained ones."""

    operations: Operations
    store: StackStore

    def run(self) -> None:
        """Delete in reverse dependency order; a failure leaves the stack in DELETE_FAILED."""
        stack = self.operations.stack
        try:
            self.store.check_outputs(stack, ())
        except CloudFormationError as error:
            stack.set_status("DELETE_FAILED", reason=error.message)
            return
        stack.close_steps()
        failures = self._remove_all() + remove_leftovers(self.operations, retained=stack.retained)
        with stack.changing():
            stack.retained = frozenset()
            if failures:
                stack.set_status("DELETE_FAILED", reason=_left_behind(failures))
                return
            stack.outputs, stack.imports = (), frozenset()
            stack.deleted = timestamp()
            stack.set_status("DELETE_COMPLETE")

    def _remove_all(self) -> list[str]:
        stack = self.operations.stack

        def act(logical_id: str) -> None:
            state = stack.resources[logical_id]
            retain = state.deletion_policy != "Delete" or logical_id in stack.retained
            self.operations.remove(state, retain=retain)
            with stack.changing():
                del stack.resources[logical_id]

        failures = run_in_order(_needed_by(stack.resources), act, may_start=lambda _failed: True)
        for error in failures.values():
            _log.warning("deletion failed: %s", reason_of(error))
        return list(failures)


def remove_leftovers(operations: Operations, *, retained: frozenset[str] = frozenset()) -> list[str]:
    """Delete leftovers; return the logical ids of those that cannot be deleted."""
    stack, failures = operations.stack, []
    for leftover in stack.leftovers.copy():
        retain = leftover.retain or leftover.state.logical_id in retained
        try:
            operations.remove(leftover.state, retain=retain)
        except Exception as error:
            _log.warning("cannot delete %s: %s", leftover.state.physical_id, reason_of(error))
            failures.append(leftover.state.logical_id)
            continue
        with stack.changing():
            stack.leftovers.remove(leftover)
    return failures


def forget_leftovers(operations: Operations) -> None:
    """Delete leftovers after an update; as on AWS, drop those that cannot be deleted."""
    remove_leftovers(operations)
    with operations.stack.changing():
        operations.stack.leftovers = []


def leave_over(stack: Stack, gone: dict[str, ResourceState]) -> None:
    """Move resources from a stack to its leftovers, in deletion order."""
    with stack.changing():
        for state in _newest_first(gone):
            del stack.resources[state.logical_id]
            stack.leftovers.append(Leftover(state, retain=state.deletion_policy != "Delete"))


def _needed_by(resources: dict[str, ResourceState]) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(other for other, state in resources.items() if name in state.depends_on)
        for name in resources
    }


def _newest_first(resources: dict[str, ResourceState]) -> list[ResourceState]:
    graph = {name: state.depends_on & resources.keys() for name, state in resources.items()}
    return [resources[name] for name in reversed(in_order(graph))]


def _left_behind(names: list[str]) -> str | None:
    listed = ", ".join(sorted(names))
    return f"The following resource(s) failed to delete: [{listed}]." if names else None
