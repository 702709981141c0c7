"""Deploy one stack, or roll it back."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.changes import Providers
from tritonstack_local.cloudformation.deployments.operations import (
    Changing,
    LiveValues,
    Operations,
    StepError,
    blank_state,
    reason_of,
)
from tritonstack_local.cloudformation.deployments.proposals import propose
from tritonstack_local.cloudformation.deployments.rollback import (
    delete_stack,
    forget_leftovers,
    leave_over,
    roll_back_creation,
    roll_back_update,
)
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Proposal, Stack, StackOutput, StackSettings, timestamp
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.cloudformation.templates.graph import dependencies, run_in_order
from tritonstack_local.service.clients import Clients


@dataclass(frozen=True)
class StackDeployment:
    """Deploys a proposal to one stack, or rolls it back."""

    operations: Operations
    proposal: Proposal

    @property
    def stack(self) -> Stack:
        """The stack that is deployed."""
        return self.operations.stack

    def create(self) -> None:
        """Create everything; on failure delete it again."""
        failure = self._apply()
        if failure is None:
            self._succeed("CREATE_COMPLETE")
        else:
            self.stack.set_status("ROLLBACK_IN_PROGRESS", reason=f"{failure} Rollback requested by user.")
            roll_back_creation(self.operations)

    def update(self) -> None:
        """Change, replace, and add resources; then remove obsolete ones, or roll back on failure."""
        failure = self._apply()
        if failure is None:
            self._succeed("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            forget_leftovers(self.operations)
            self.stack.set_status("UPDATE_COMPLETE")
        else:
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason=failure)
            roll_back_update(self.operations)

    def _apply(self) -> str | None:
        """Deploy every resource; return the error, or None on success."""
        resources = self.proposal.evaluation.active_resources()
        graph = dependencies(resources, declared=self.proposal.evaluation.template.resources)

        def act(logical_id: str) -> None:
            resource = resources[logical_id]
            resolved = self.proposal.evaluation.resolve(resource.properties, self._answers())
            provider = self.operations.providers[resource.type]
            properties = provider.tagged(resolved, self.proposal.settings.tags)
            self.operations.deploy_resource(resource, properties, graph[logical_id])

        def may_start(failed: bool) -> bool:
            if failed:
                self.stack.cancelled.set()
            return not self.stack.cancelled.is_set()

        failures = run_in_order(graph, act, may_start=may_start)
        return self._failure(failures) or self._set_outputs()

    def _failure(self, failures: dict[str, BaseException]) -> str | None:
        cancelled = self.stack.cancelled.is_set()
        self.stack.cancelled.clear()
        if failures:
            for logical_id, error in failures.items():
                self._note_unforeseen(logical_id, error)
            return f"The following resource(s) failed to deploy: [{', '.join(failures)}]."
        return "Cancelled by user." if cancelled else None

    def _note_unforeseen(self, logical_id: str, error: BaseException) -> None:
        """Record failures before the step itself, such as a value that cannot be resolved."""
        if isinstance(error, StepError):
            return
        before = self.stack.resources.get(logical_id)
        state = before or blank_state(self.proposal.evaluation.template.resources[logical_id])
        self.stack.set_resource_status(
            state, "UPDATE_FAILED" if before else "CREATE_FAILED", reason_of(error)
        )

    def _set_outputs(self) -> str | None:
        try:
            resolved = self.proposal.evaluation.resolve_outputs(self._answers())
            outputs = tuple(_output(key, output) for key, output in resolved.items())
            with self.stack.changing():
                self.stack.outputs = outputs
        except CloudFormationError as error:
            return error.message
        return None

    def _succeed(self, status: str) -> None:
        """Make the proposal the stack's current state; it can no longer be rolled back."""
        stack, proposal = self.stack, self.proposal
        wanted = proposal.evaluation.active_resources()
        with stack.changing():
            stack.adopt(proposal)
            stack.close_steps()
            leave_over(stack, {name: it for name, it in stack.resources.items() if name not in wanted})
            stack.set_status(status)

    def _answers(self) -> LiveValues:
        return LiveValues(self.stack.resources, self.operations.providers)


def _output(key: str, output: dict[str, object]) -> StackOutput:
    export = output.get("Export")
    name = export.get("Name") if isinstance(export, dict) else None
    if not isinstance(output.get("Value"), str | int | float | bool):
        raise CloudFormationError(
            f"Template format error: Output {key} is malformed: its value is not a string"
        )
    value = output["Value"]
    description = output.get("Description")
    return StackOutput(
        key=key,
        value=str(value).lower() if isinstance(value, bool) else str(value),
        description=None if description is None else str(description),
        export=None if name is None else str(name),
    )


_log = logging.getLogger(__name__)

_PATIENCE_S = 3.0
"""How long a call waits for its deployment, so that short deployments are complete when the call returns and
clients that poll every five seconds, such as the CDK, need not wait."""
_INTERRUPTED = "The local cloud was ended meanwhile."
_AFTER_INTERRUPTION: Mapping[str, tuple[str, Callable[[Operations], None] | None]] = {
    "CREATE_IN_PROGRESS": ("ROLLBACK_IN_PROGRESS", roll_back_creation),
    "DELETE_IN_PROGRESS": ("DELETE_IN_PROGRESS", delete_stack),
    "ROLLBACK_IN_PROGRESS": ("ROLLBACK_IN_PROGRESS", roll_back_creation),
    "UPDATE_IN_PROGRESS": ("UPDATE_ROLLBACK_IN_PROGRESS", roll_back_update),
    "UPDATE_ROLLBACK_IN_PROGRESS": ("UPDATE_ROLLBACK_IN_PROGRESS", roll_back_update),
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
            store=self.store, providers=self.providers, stack=stack, params=params, settings=settings
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
            delete_stack(self._operations(stack))

        self._start(stack, work)

    def resume(self) -> None:
        """Roll back the deployments that the end of an earlier cloud interrupted, and repeat deletions."""
        for stack in self.store.everywhere():
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

    def _deployment(self, stack: Stack, proposal: Proposal) -> StackDeployment:
        return StackDeployment(self._operations(stack), proposal)
