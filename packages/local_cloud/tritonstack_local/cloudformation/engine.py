"""Deploy one stack, or roll it back."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from tritonstack_local.cloudformation.changes import (
    Dependencies,
    Providers,
    ResourceState,
    dependencies,
    in_order,
)
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.operations import (
    Changing,
    LiveValues,
    Operations,
    StepError,
    reason_of,
)
from tritonstack_local.cloudformation.proposals import propose
from tritonstack_local.cloudformation.records import (
    Leftover,
    Proposal,
    Stack,
    StackSettings,
    StackStore,
    timestamp,
)
from tritonstack_local.service.clients import Clients

_log = logging.getLogger(__name__)
_WORKERS = 8


def _run_in_order(
    graph: Dependencies,
    action: Callable[[str], None],
    *,
    may_start: Callable[[bool], bool],
) -> dict[str, BaseException]:
    """Run `action` on every node in dependency order, and return the failures.

    `may_start(failed)` decides whether to start more nodes; dependents of failed nodes never start.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    failures: dict[str, BaseException] = {}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        while True:
            if may_start(bool(failures)):
                running |= {pool.submit(action, node): node for node in sorter.get_ready()}
            if not running:
                return failures
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                node, error = running.pop(future), future.exception()
                if error is None:
                    sorter.done(node)
                else:
                    failures[node] = error


def _roll_back_creation(operations: Operations) -> None:
    """Delete everything that was created."""
    stack = operations.stack
    with stack.changing():
        stack.resources, stack.outputs = {}, ()
        stack.close_steps()
    failures = _remove_leftovers(operations)
    stack.set_status("ROLLBACK_FAILED" if failures else "ROLLBACK_COMPLETE", reason=_left_behind(failures))


def _roll_back_update(operations: Operations) -> None:
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
    _forget_leftovers(operations)
    stack.set_status("UPDATE_ROLLBACK_COMPLETE")


def _delete_stack(operations: Operations) -> None:
    """Delete a stack in reverse dependency order; a failure leaves it in DELETE_FAILED."""
    stack = operations.stack
    stack.close_steps()
    failures = _remove_all(operations) + _remove_leftovers(operations)
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
        operations.remove(state, retain=state.resource.deletion_policy != "Delete")
        with stack.changing():
            del stack.resources[logical_id]

    failures = _run_in_order(_needed_by(stack.resources), act, may_start=lambda _failed: True)
    for error in failures.values():
        _log.warning("deletion failed: %s", reason_of(error))
    return list(failures)


def _remove_leftovers(operations: Operations) -> list[str]:
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


def _forget_leftovers(operations: Operations) -> None:
    """Delete leftovers after an update; as on AWS, drop those that cannot be deleted."""
    _remove_leftovers(operations)
    with operations.stack.changing():
        operations.stack.leftovers = []


def _needed_by(resources: Mapping[str, ResourceState]) -> dict[str, set[str]]:
    dependents: dict[str, set[str]] = {name: set() for name in resources}
    for name, state in resources.items():
        for dependency in state.depends_on & resources.keys():
            dependents[dependency].add(name)
    return dependents


def _left_behind(names: list[str]) -> str | None:
    listed = ", ".join(sorted(names))
    return f"The following resource(s) failed to delete: [{listed}]." if names else None


@dataclass(frozen=True)
class _Deployment:
    """Deploys a proposal to one stack, or rolls it back."""

    operations: Operations
    proposal: Proposal

    @property
    def stack(self) -> Stack:
        return self.operations.stack

    def create(self) -> None:
        """Create everything; on failure delete it again."""
        failure = self._apply()
        if failure is None:
            self._succeed("CREATE_COMPLETE")
        else:
            self.stack.set_status("ROLLBACK_IN_PROGRESS", reason=f"{failure} Rollback requested by user.")
            _roll_back_creation(self.operations)

    def update(self) -> None:
        """Change, replace, and add resources; then remove obsolete ones, or roll back on failure."""
        failure = self._apply()
        if failure is None:
            self._succeed("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            _forget_leftovers(self.operations)
            self.stack.set_status("UPDATE_COMPLETE")
        else:
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason=failure)
            _roll_back_update(self.operations)

    def _apply(self) -> str | None:
        """Deploy every resource; return the error, or None on success."""
        evaluation, stack = self.proposal.evaluation, self.stack
        resources = evaluation.active_resources()
        graph = dependencies(resources, declared=evaluation.template.resources)

        def act(logical_id: str) -> None:
            resource = resources[logical_id]
            resolved = evaluation.resolve(resource.properties, LiveValues(stack.resources))
            provider = self.operations.providers[resource.type]
            properties = provider.tagged(resolved, self.proposal.settings.tags)
            self.operations.deploy_resource(resource, properties, frozenset(graph[logical_id]))

        def may_start(failed: bool) -> bool:
            if failed:
                stack.cancelled.set()
            return not stack.cancelled.is_set()

        failures = _run_in_order(graph, act, may_start=may_start)
        is_cancelled = stack.cancelled.is_set()
        stack.cancelled.clear()
        if failures:
            for logical_id, error in failures.items():
                self._note_unforeseen(logical_id, error)
            return f"The following resource(s) failed to deploy: [{', '.join(failures)}]."
        return "Cancelled by user." if is_cancelled else self._set_outputs()

    def _note_unforeseen(self, logical_id: str, error: BaseException) -> None:
        """Record failures before the step itself, such as a value that cannot be resolved."""
        if isinstance(error, StepError):
            return
        before = self.stack.resources.get(logical_id)
        state = before or ResourceState(self.proposal.evaluation.template.resources[logical_id])
        status = "UPDATE_FAILED" if before else "CREATE_FAILED"
        self.stack.set_resource_status(state, status, reason_of(error))

    def _set_outputs(self) -> str | None:
        try:
            resolved = self.proposal.evaluation.resolve_outputs(LiveValues(self.stack.resources))
            outputs = [_output(key, output) for key, output in resolved.items()]
        except CloudFormationError as error:
            return error.message
        with self.stack.changing():
            self.stack.outputs = outputs
        return None

    def _succeed(self, status: str) -> None:
        """Make the proposal the stack's current state; it can no longer be rolled back."""
        stack, wanted = self.stack, self.proposal.evaluation.active_resources()
        with stack.changing():
            stack.adopt(self.proposal)
            stack.close_steps()
            obsolete = {name: state for name, state in stack.resources.items() if name not in wanted}
            for name in in_order(_needed_by(obsolete)):
                state = stack.resources.pop(name)
                stack.leftovers.append(Leftover(state, retain=state.resource.deletion_policy != "Delete"))
            stack.set_status(status)


def _output(key: str, output: Mapping[str, Any]) -> dict[str, str]:
    value, export = output.get("Value"), output.get("Export")
    if not isinstance(value, str | int | float | bool):
        raise CloudFormationError(
            f"Template format error: Output {key} is malformed: its value is not a string"
        )
    shown = {"OutputKey": key, "OutputValue": str(value).lower() if isinstance(value, bool) else str(value)}
    if "Description" in output:
        shown["Description"] = str(output["Description"])
    if isinstance(export, Mapping) and "Name" in export:
        shown["ExportName"] = str(export["Name"])
    return shown


_PATIENCE_S = 3.0
"""How long a call waits for its deployment, so that short deployments are complete when the call returns and
clients that poll every five seconds, such as the CDK, need not wait."""
_INTERRUPTED = "The local cloud was ended meanwhile."
_AFTER_INTERRUPTION: Mapping[str, tuple[str, Callable[[Operations], None] | None]] = {
    "CREATE_IN_PROGRESS": ("ROLLBACK_IN_PROGRESS", _roll_back_creation),
    "DELETE_IN_PROGRESS": ("DELETE_IN_PROGRESS", _delete_stack),
    "ROLLBACK_IN_PROGRESS": ("ROLLBACK_IN_PROGRESS", _roll_back_creation),
    "UPDATE_IN_PROGRESS": ("UPDATE_ROLLBACK_IN_PROGRESS", _roll_back_update),
    "UPDATE_ROLLBACK_IN_PROGRESS": ("UPDATE_ROLLBACK_IN_PROGRESS", _roll_back_update),
    # The next update or deletion continues a clean-up.
    "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": ("UPDATE_COMPLETE", None),
    "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": ("UPDATE_ROLLBACK_COMPLETE", None),
}


@dataclass(frozen=True)
class Engine:
    """Starts deployments of the stacks in `store`."""

    providers: Providers
    clients: Clients
    store: StackStore
    changing: Changing

    def propose(self, stack: Stack, params: Mapping[str, Any], settings: StackSettings) -> Proposal:
        """Return the proposal of a CreateStack, UpdateStack, or CreateChangeSet call."""
        return propose(
            clients=self.clients, providers=self.providers, stack=stack, params=params, settings=settings
        )

    def create(self, stack: Stack, proposal: Proposal) -> None:
        """Create the resources of a new stack."""
        with stack.changing():
            self._claim(stack, "CREATE_IN_PROGRESS")
            stack.adopt(proposal)
        self._start(stack, self._deployment(stack, proposal).create)

    def update(self, stack: Stack, proposal: Proposal) -> None:
        """Update a stack."""
        self._claim(stack, "UPDATE_IN_PROGRESS")
        with stack.changing():
            stack.updated = timestamp()
        self._start(stack, self._deployment(stack, proposal).update)

    def delete(self, stack: Stack) -> None:
        """Delete a stack; cancel a creation in progress first."""
        with stack.changing():
            creation = stack.worker if stack.status == "CREATE_IN_PROGRESS" else None
            if creation is None:
                self._claim(stack, "DELETE_IN_PROGRESS")
            else:
                stack.cancelled.set()

        def work() -> None:
            if creation is not None:
                creation.join()
                with stack.changing():
                    if stack.in_progress or stack.deleted is not None:
                        return  # another thread was faster
                    self._claim(stack, "DELETE_IN_PROGRESS")
            _delete_stack(self._operations(stack))

        self._start(stack, work)

    def resume(self) -> None:
        """Roll back the deployments that the end of an earlier cloud interrupted, and repeat deletions."""
        for stack in self.store.living():
            if not stack.in_progress:
                continue
            _log.info("stack %s was %s", stack.identity.name, stack.status)
            # Without the steps that had made nothing yet.
            stack.unfinished = [step for step in stack.unfinished if step.after.physical_id]
            status, work = _AFTER_INTERRUPTION[stack.status]
            stack.set_status(status, reason=_INTERRUPTED)
            if work is not None:
                self._start(stack, functools.partial(work, self._operations(stack)), wait=False)

    def _claim(self, stack: Stack, status: str) -> None:
        with stack.changing():
            if stack.in_progress:
                raise CloudFormationError(
                    f"Stack:{stack.identity.stack_id} is in {stack.status} state and can not be updated."
                )
            stack.cancelled.clear()
            stack.set_status(status, reason="User Initiated")
            for change_set in stack.change_sets.values():  # they planned for the stack as it was
                if change_set.execution_status == "AVAILABLE":
                    change_set.execution_status = "OBSOLETE"

    def _start(self, stack: Stack, work: Callable[[], None], *, wait: bool = True) -> None:
        def run() -> None:
            try:
                work()
            except Exception:
                _log.exception("internal error in the deployment of %s", stack.identity.name)
                stack.set_status(
                    f"{stack.status.removesuffix('_IN_PROGRESS')}_FAILED", reason="Internal failure"
                )

        stack.worker = threading.Thread(target=run, name=f"stack {stack.identity.name}", daemon=True)
        stack.worker.start()
        if wait:
            stack.worker.join(timeout=_PATIENCE_S)

    def _operations(self, stack: Stack) -> Operations:
        return Operations(stack, self.providers, self.clients, self.changing)

    def _deployment(self, stack: Stack, proposal: Proposal) -> _Deployment:
        return _Deployment(self._operations(stack), proposal)
