"""Deploy one stack, or roll it back."""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack_local.cloudformation.deployments.operations import (
    LiveValues,
    Operations,
    StepError,
    blank_state,
    reason_of,
)
from tritonstack_local.cloudformation.deployments.rollback import StackRollback, forget_leftovers, leave_over
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Proposal, Stack, StackOutput
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.cloudformation.templates.graph import dependencies, run_in_order


@dataclass(frozen=True)
class StackDeployment:
    """Deploys a proposal to one stack, or rolls it back."""

    operations: Operations
    proposal: Proposal
    store: StackStore

    @property
    def stack(self) -> Stack:
        """The stack that is deployed."""
        return self.operations.stack

    def create(self) -> None:
        """Create everything; on failure delete it again, unless rollback is disabled."""
        failure = self._apply()
        if failure is None:
            self._succeed("CREATE_COMPLETE")
        elif self.stack.keeps_failures:
            self.stack.set_status("CREATE_FAILED", reason=failure)
        else:
            self.stack.set_status("ROLLBACK_IN_PROGRESS", reason=f"{failure} Rollback requested by user.")
            StackRollback(self.operations).of_create()

    def update(self) -> None:
        """Change, replace, and add resources; then remove obsolete ones, or roll back on failure."""
        failure = self._apply()
        if failure is None:
            self._succeed("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            finish_update(self.operations)
        elif self.stack.keeps_failures:
            # Keep everything for inspection; the next attempt continues from the recorded steps.
            self.stack.set_status("UPDATE_FAILED", reason=failure)
        else:
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason=failure)
            StackRollback(self.operations).of_update()

    def _apply(self) -> str | None:
        """Deploy every resource; return the error, or None on success."""
        resources = self.proposal.evaluation.active_resources()
        graph = dependencies(resources, declared=self.proposal.template.resources)

        def act(logical_id: str) -> None:
            resource = resources[logical_id]
            resolved = self.proposal.evaluation.resolve(resource.properties, self._answers())
            provider = self.operations.providers[resource.type]
            properties = provider.tagged(resolved, self.proposal.settings.tags)
            if logical_id in self.proposal.imports and logical_id not in self.stack.resources:
                self.operations.take_in(resource, properties, graph[logical_id])
                return
            self.operations.bring(resource, properties, graph[logical_id])

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
        state = before or blank_state(self.proposal.template.resources[logical_id])
        self.stack.set_resource_status(
            state, "UPDATE_FAILED" if before else "CREATE_FAILED", reason_of(error)
        )

    def _set_outputs(self) -> str | None:
        try:
            resolved = self.proposal.evaluation.resolve_outputs(self._answers())
            outputs = tuple(_output(key, output) for key, output in resolved.items())
            self.store.publish(self.stack, outputs)
        except CloudFormationError as error:
            return error.message
        return None

    def _succeed(self, status: str) -> None:
        """Make the proposal the stack's current state; it can no longer be rolled back."""
        stack, proposal = self.stack, self.proposal
        wanted = proposal.evaluation.active_resources()
        with stack.changing():
            stack.adopt(proposal)
            stack.imports = frozenset(proposal.evaluation.imports)
            stack.close_steps()
            leave_over(stack, {name: it for name, it in stack.resources.items() if name not in wanted})
            stack.set_status(status)

    def _answers(self) -> LiveValues:
        return LiveValues(self.stack.resources, self.operations.providers)


def finish_update(operations: Operations) -> None:
    """Delete the resources that an update replaced or removed."""
    forget_leftovers(operations)
    operations.stack.set_status("UPDATE_COMPLETE")


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
