"""Roll back failed deployments, delete stacks, and remove leftover resources."""

from __future__ import annotations

import logging

from tritonstack_local.cloudformation.changes import ResourceState
from tritonstack_local.cloudformation.deployments.operations import Operations, reason_of
from tritonstack_local.cloudformation.records import Leftover, Stack, timestamp
from tritonstack_local.cloudformation.templates.graph import in_order, run_in_order

_log = logging.getLogger(__name__)


def roll_back_creation(operations: Operations) -> None:
    """Delete everything that was created."""
    stack = operations.stack
    with stack.changing():
        stack.resources, stack.outputs = {}, ()
        stack.close_steps()
    failures = remove_leftovers(operations)
    stack.set_status("ROLLBACK_FAILED" if failures else "ROLLBACK_COMPLETE", reason=_left_behind(failures))


def roll_back_update(operations: Operations) -> None:
    """Revert changes, then delete created resources."""
    stack = operations.stack
    for step in reversed(stack.unfinished.copy()):
        try:
            operations.revert(step)
        except Exception as error:
            stack.set_resource_status(step.before or step.after, "UPDATE_FAILED", reason_of(error))
            reason = f"The following resource(s) failed to update: [{step.logical_id}]."
            stack.set_status("UPDATE_ROLLBACK_FAILED", reason=reason)
            return
        stack.undone(step)
    stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
    forget_leftovers(operations)
    stack.set_status("UPDATE_ROLLBACK_COMPLETE")


def delete_stack(operations: Operations) -> None:
    """Delete a stack in reverse dependency order; a failure leaves it in DELETE_FAILED."""
    stack = operations.stack
    stack.close_steps()
    failures = _remove_all(operations) + remove_leftovers(operations)
    with stack.changing():
        if failures:
            stack.set_status("DELETE_FAILED", reason=_left_behind(failures))
            return
        stack.outputs = ()
        stack.deleted = timestamp()
        stack.set_status("DELETE_COMPLETE")


def _remove_all(operations: Operations) -> list[str]:
    stack = operations.stack

    def act(logical_id: str) -> None:
        state = stack.resources[logical_id]
        operations.remove(state, retain=state.deletion_policy != "Delete")
        with stack.changing():
            del stack.resources[logical_id]

    failures = run_in_order(_needed_by(stack.resources), act, may_start=lambda _failed: True)
    for error in failures.values():
        _log.warning("deletion failed: %s", reason_of(error))
    return list(failures)


def remove_leftovers(operations: Operations) -> list[str]:
    """Delete leftovers; return the logical ids of those that cannot be deleted."""
    stack, failures = operations.stack, []
    for leftover in stack.leftovers.copy():
        try:
            operations.remove(leftover.state, retain=leftover.retain)
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
        for name in in_order(_needed_by(gone)):
            state = stack.resources.pop(name)
            stack.leftovers.append(Leftover(state, retain=state.deletion_policy != "Delete"))


def _needed_by(resources: dict[str, ResourceState]) -> dict[str, frozenset[str]]:
    return {
        name: frozenset(other for other, state in resources.items() if name in state.depends_on)
        for name in resources
    }


def _left_behind(names: list[str]) -> str | None:
    listed = ", ".join(sorted(names))
    return f"The following resource(s) failed to delete: [{listed}]." if names else None
