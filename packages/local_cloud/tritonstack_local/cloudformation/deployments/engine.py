"""Run deployments in worker threads, and resume those interrupted by a kill."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tritonstack_local.cloudformation.deployments.changes import Providers
from tritonstack_local.cloudformation.deployments.deployment import StackDeployment, finish_update
from tritonstack_local.cloudformation.deployments.operations import Operations
from tritonstack_local.cloudformation.deployments.rollback import StackDeletion, StackRollback
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Proposal, Stack, timestamp
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.service.clients import Clients
from tritonstack_local.state.idempotency import IdempotencyLog

_log = logging.getLogger(__name__)

_PATIENCE_S = 3.0
"""How long a call waits for its deployment, so that short deployments are complete when the call returns and
clients that poll every five seconds, such as the CDK, need not wait."""
_INTERRUPTED = "The local cloud was ended meanwhile."
_UNDOING = {
    "CREATE_IN_PROGRESS": "ROLLBACK_IN_PROGRESS",
    "UPDATE_IN_PROGRESS": "UPDATE_ROLLBACK_IN_PROGRESS",
}


@dataclass(frozen=True)
class Engine:
    """Starts deployments of the stacks in `store`."""

    providers: Providers
    clients: Clients
    idempotency_log: IdempotencyLog
    store: StackStore

    def create(self, stack: Stack, proposal: Proposal) -> None:
        """Create the resources of a new stack."""
        with stack.changing():
            self._claim(stack, "CREATE_IN_PROGRESS", keeps_failures=proposal.settings.disable_rollback)
            stack.adopt(proposal)
        self._start(stack, self._deployment(stack, proposal).create)

    def update(self, stack: Stack, proposal: Proposal) -> None:
        """Update a stack."""
        self._claim(stack, "UPDATE_IN_PROGRESS", keeps_failures=proposal.settings.disable_rollback)
        with stack.changing():
            stack.updated = timestamp()
        self._start(stack, self._deployment(stack, proposal).update)

    def roll_back(self, stack: Stack, *, skip: frozenset[str] = frozenset()) -> None:
        """Roll back a failed deployment."""
        creating = stack.status in {"CREATE_FAILED", "ROLLBACK_FAILED"}
        self._claim(stack, "ROLLBACK_IN_PROGRESS" if creating else "UPDATE_ROLLBACK_IN_PROGRESS")
        rollback = StackRollback(self._operations(stack), skip=skip)
        self._start(stack, rollback.of_create if creating else rollback.of_update)

    def delete(self, stack: Stack, *, retain: frozenset[str] = frozenset()) -> None:
        """Delete a stack; cancel a creation in progress first."""
        with stack.changing():
            creation = stack.worker if stack.status == "CREATE_IN_PROGRESS" else None
            if creation is None:
                self._claim(stack, "DELETE_IN_PROGRESS")
            else:
                stack.cancelled.set()
            stack.retained = retain

        def work() -> None:
            if creation is not None:
                creation.join()
                with stack.changing():
                    if stack.in_progress or stack.deleted is not None:
                        return  # another thread was faster
                    self._claim(stack, "DELETE_IN_PROGRESS")
            StackDeletion(self._operations(stack), self.store).run()

        self._start(stack, work)

    def resume(self) -> None:
        """Resume after a kill: roll back creations and updates, continue rollbacks and deletions."""
        for stack in self.store.everywhere():
            if stack.in_progress:
                _log.info("resuming stack %s, which was %s", stack.identity.name, stack.status)
                self._start(stack, lambda stack=stack: self._take_up(stack), wait=False)  # type: ignore[misc]

    def _take_up(self, stack: Stack) -> None:
        operations = self._operations(stack)
        for step in stack.unfinished.copy():
            operations.take_up(step)
        if stack.keeps_failures and stack.status in {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}:
            stack.set_status(f"{stack.status.removesuffix('_IN_PROGRESS')}_FAILED", reason=_INTERRUPTED)
            return
        if stack.status in _UNDOING:
            stack.set_status(_UNDOING[stack.status], reason=_INTERRUPTED)
        rollback = StackRollback(operations)
        going_on: Mapping[str, Callable[[], None]] = {
            "ROLLBACK_IN_PROGRESS": rollback.of_create,
            "UPDATE_ROLLBACK_IN_PROGRESS": rollback.of_update,
            "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS": rollback.clean_up,
            "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": lambda: finish_update(operations),
            "DELETE_IN_PROGRESS": StackDeletion(operations, self.store).run,
        }
        going_on[stack.status]()

    def _claim(self, stack: Stack, status: str, *, keeps_failures: bool = False) -> None:
        with stack.changing():
            if stack.in_progress:
                raise CloudFormationError(
                    f"Stack:{stack.identity.stack_id} is in {stack.status} state and can not be updated."
                )
            stack.cancelled.clear()
            stack.keeps_failures = keeps_failures
            stack.set_status(status, reason="User Initiated")
            stack.retire_change_sets()

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
        return Operations(stack, self.providers, self.clients, self.idempotency_log)

    def _deployment(self, stack: Stack, proposal: Proposal) -> StackDeployment:
        return StackDeployment(self._operations(stack), proposal, self.store)
