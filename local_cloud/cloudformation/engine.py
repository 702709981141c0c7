"""Deploys stacks: creates, updates, rolls back and deletes them, each in a worker thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from local_cloud.clients import Clients
from local_cloud.cloudformation.changes import Providers, ResourceState
from local_cloud.cloudformation.errors import CloudFormationError
from local_cloud.cloudformation.graph import dependencies
from local_cloud.cloudformation.operations import LiveAnswers, Operations, StepError, reason_of
from local_cloud.cloudformation.records import Output, Proposal, Stack, Step
from local_cloud.cloudformation.scheduling import run_in_order
from local_cloud.cloudformation.undoing import CheckOutputs, Deletion, Rollback, newest_first

_log = logging.getLogger(__name__)

_RETAINED = {"Retain"}
_PATIENCE_S = 3.0
"""How long a call waits for its deployment: what takes less is over when the call returns, so that clients
that look at once and then every five seconds, as the CDK does, need not wait for the second look."""


@dataclass(frozen=True)
class Engine:
    """Starts deployments. `check_outputs` refuses exports that clash with those of other stacks."""

    providers: Providers
    clients: Clients
    check_outputs: CheckOutputs

    def create(self, stack: Stack, proposal: Proposal) -> None:
        """Create the resources of a new stack."""
        self._start(stack, "CREATE_IN_PROGRESS", lambda: self._deployment(stack, proposal).create())

    def update(self, stack: Stack, proposal: Proposal) -> None:
        """Bring an existing stack to another template."""
        self._start(stack, "UPDATE_IN_PROGRESS", lambda: self._deployment(stack, proposal).update())

    def roll_back(self, stack: Stack, *, skip: frozenset[str] = frozenset()) -> None:
        """Undo what a failed deployment left undone."""
        creating = stack.status in {"CREATE_FAILED", "ROLLBACK_FAILED"}
        status = "ROLLBACK_IN_PROGRESS" if creating else "UPDATE_ROLLBACK_IN_PROGRESS"
        rollback = Rollback(self._operations(stack), skip=skip)
        self._start(stack, status, rollback.of_create if creating else rollback.of_update)

    def delete(self, stack: Stack, *, retain: frozenset[str] = frozenset()) -> None:
        """Delete a stack, waiting first for the end of a creation that is under way."""
        stack.cancelled.set()
        under_way = stack.worker

        def work() -> None:
            if under_way is not None:
                under_way.join()
            stack.cancelled.clear()
            stack.set_status("DELETE_IN_PROGRESS", reason="User Initiated")
            Deletion(self._operations(stack), retain=retain, check_outputs=self.check_outputs).run()

        self._start(stack, None, work)

    def _start(self, stack: Stack, status: str | None, work: Callable[[], None]) -> None:
        with stack.lock:
            if status is not None:
                if stack.in_progress:
                    raise CloudFormationError(
                        f"Stack:{stack.identity.stack_id} is in {stack.status} state and can not be updated."
                    )
                stack.cancelled.clear()
                stack.set_status(status, reason="User Initiated")

        def run() -> None:
            try:
                work()
            except Exception:
                _log.exception("the deployment of %s broke", stack.identity.name)
                stack.set_status(
                    f"{stack.status.removesuffix('_IN_PROGRESS')}_FAILED", reason="Internal failure"
                )

        stack.retire_change_sets()
        stack.worker = threading.Thread(target=run, name=f"stack {stack.identity.name}", daemon=True)
        stack.worker.start()
        stack.worker.join(timeout=_PATIENCE_S)

    def _operations(self, stack: Stack) -> Operations:
        return Operations(stack, self.providers, self.clients)

    def _deployment(self, stack: Stack, proposal: Proposal) -> Deployment:
        return Deployment(self._operations(stack), proposal, self.check_outputs)


@dataclass
class Deployment:
    """Brings one stack to what a proposal says, or back."""

    operations: Operations
    proposal: Proposal
    check_outputs: CheckOutputs
    steps: list[Step] = field(default_factory=list)
    failed: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Without rollback a failed attempt leaves its steps: the next one carries on from them.
        self.steps.extend(self.stack.unfinished)

    @property
    def stack(self) -> Stack:
        """The stack that is deployed."""
        return self.operations.stack

    def create(self) -> None:
        """Create everything; on failure delete it again, unless rollback is disabled."""
        failure = self._apply()
        if failure is None:
            self._finish("CREATE_COMPLETE")
        elif self.proposal.settings.disable_rollback:
            self._leave("CREATE_FAILED", failure)
        else:
            self.stack.unfinished = tuple(self.steps)
            self.stack.set_status("ROLLBACK_IN_PROGRESS", reason=f"{failure} Rollback requested by user.")
            Rollback(self.operations).of_create()

    def update(self) -> None:
        """Change, replace and add; on success remove what is no longer wanted, on failure go back."""
        failure = self._apply()
        if failure is None:
            self._clean_up()
            self._finish("UPDATE_COMPLETE")
        elif self.proposal.settings.disable_rollback:
            self._leave("UPDATE_FAILED", failure)
        else:
            self.stack.unfinished = tuple(self.steps)
            self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", reason=failure)
            Rollback(self.operations).of_update()

    def _apply(self) -> str | None:
        """Bring every resource to the template. Returns why not, None on success."""
        resources = self.proposal.evaluation.active_resources()
        graph = dependencies(resources, declared=self.proposal.template.resources)

        def act(logical_id: str) -> None:
            resource = resources[logical_id]
            properties = self.proposal.evaluation.resolve(resource.properties, self._answers())
            if logical_id in self.proposal.imports and logical_id not in self.stack.resources:
                self.operations.take_in(resource, properties, graph[logical_id])
                return
            step = self.operations.bring(resource, properties, graph[logical_id])
            if step is not None:
                self.steps.append(step)

        def may_start(failed: bool) -> bool:
            if failed:
                self.stack.cancelled.set()
            return not self.stack.cancelled.is_set()

        failures = run_in_order(graph, act, may_start=may_start)
        self.failed = [e.step for e in failures.values() if isinstance(e, StepError) and e.step is not None]
        self.steps.extend(self.failed)
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
        """Write down failures that come before the step itself could: a value that cannot be resolved."""
        if isinstance(error, StepError):
            return
        before = self.stack.resources.get(logical_id)
        self.stack.set_resource_status(
            logical_id,
            type_name=self.proposal.template.resources[logical_id].type,
            physical_id=before.physical_id if before else "",
            status="UPDATE_FAILED" if before else "CREATE_FAILED",
            reason=reason_of(error),
        )

    def _set_outputs(self) -> str | None:
        try:
            resolved = self.proposal.evaluation.resolve_outputs(self._answers())
            outputs = tuple(_output(key, output) for key, output in resolved.items())
            self.check_outputs(self.stack, outputs)
        except CloudFormationError as error:
            return error.message
        with self.stack.lock:
            self.stack.outputs = outputs
        return None

    def _clean_up(self) -> None:
        """Delete what was replaced or left the template; what cannot go is left behind, as on AWS."""
        wanted = self.proposal.evaluation.active_resources()
        gone = {name: state for name, state in self.stack.resources.items() if name not in wanted}
        replaced = [step.before for step in self.steps if step.before is not None and step.made]
        if gone or replaced or self.stack.broken:
            self.stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        for state in reversed(replaced):
            self._try_removing(state, retain=state.update_replace_policy in _RETAINED)
        for state in newest_first(gone):
            del self.stack.resources[state.logical_id]
            self._try_removing(state, retain=state.deletion_policy != "Delete")
        while self.stack.broken:
            self._try_removing(self.stack.broken.pop(), retain=False)

    def _try_removing(self, state: ResourceState, *, retain: bool) -> None:
        status = self.stack.statuses.get(state.logical_id)
        try:
            self.operations.remove(state, retain=retain)
        except Exception as error:
            _log.warning("%s was left behind: %s", state.physical_id, reason_of(error))
        if status is not None and state.logical_id in self.stack.resources:
            # The logical id lives on in the new resource; only the events tell of the old one.
            self.stack.statuses[state.logical_id] = status

    def _leave(self, status: str, failure: str) -> None:
        """End a failed deployment without rollback: everything stays for a look, or for the next attempt."""
        with self.stack.lock:
            self.stack.broken.extend(
                step.after for step in self.failed if step.made and step.after is not None
            )
            self.stack.unfinished = tuple(self.steps)
        self.stack.set_status(status, reason=failure)

    def _finish(self, status: str) -> None:
        proposal = self.proposal
        with self.stack.lock:
            self.stack.template = proposal.template
            self.stack.parameters = proposal.parameters
            self.stack.settings = proposal.settings
            self.stack.imports = frozenset(proposal.evaluation.imports)
            self.stack.unfinished = ()
            self.stack.set_status(status)

    def _answers(self) -> LiveAnswers:
        return LiveAnswers(self.stack.resources, self.operations.providers)


def _output(key: str, output: dict[str, object]) -> Output:
    export = output.get("Export")
    name = export.get("Name") if isinstance(export, dict) else None
    if not isinstance(output.get("Value"), str | int | float | bool):
        raise CloudFormationError(
            f"Template format error: Output {key} is malformed: its value is not a string"
        )
    value = output["Value"]
    description = output.get("Description")
    return Output(
        key=key,
        value=str(value).lower() if isinstance(value, bool) else str(value),
        description=None if description is None else str(description),
        export=None if name is None else str(name),
    )
