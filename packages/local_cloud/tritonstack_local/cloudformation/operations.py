"""Run single steps on resources through their providers, and record the stack's events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.cloudformation.changes import Providers, ResourceReplacement, ResourceState, compare
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.providers.base import ProviderError, ResourceRequest, UnchangeableError
from tritonstack_local.cloudformation.records import Stack, StackStep
from tritonstack_local.cloudformation.template import Resource
from tritonstack_local.service.clients import Clients

_log = logging.getLogger(__name__)
Changing = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class LiveValues:
    """The current values of a stack's resources."""

    resources: Mapping[str, ResourceState]

    def reference(self, logical_id: str) -> Any:
        """Return `Ref`."""
        return self.resources[logical_id].physical_id

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Return `Fn::GetAtt`."""
        return self.resources[logical_id].attributes[attribute]


@dataclass(frozen=True)
class Operations:
    """Steps on the resources of one stack."""

    stack: Stack
    providers: Providers
    clients: Clients
    changing: Changing = nullcontext
    """Holds off snapshots of the cloud's state."""

    def deploy_resource(
        self, resource: Resource, properties: Mapping[str, Any], needs: frozenset[str]
    ) -> None:
        """Create, change, or replace a resource so that it has these properties."""
        before = self.stack.resources.get(resource.logical_id)
        wanted = ResourceState(resource, properties, needs)
        if before is None:
            self._run(StackStep(None, wanted), "CREATE")
            return
        changes = compare(self.providers[resource.type], before.properties, properties)
        if not changes:
            self._keep(replace(wanted, physical_id=before.physical_id, attributes=before.attributes))
        elif any(change.replacement is not ResourceReplacement.NEVER for change in changes):
            self._replace(before, wanted)
        else:
            self._run(StackStep(before, replace(wanted, physical_id=before.physical_id)), "UPDATE")

    def revert(self, step: StackStep) -> None:
        """Undo an in-place change; after a replacement, the old resource is unchanged."""
        before = step.before
        if before is None:
            return
        if not step.made:
            self.stack.set_resource_status(before, "UPDATE_IN_PROGRESS")
            provider, request = self.providers[before.type], self.request(before)
            provider.update(request, before.physical_id, self.request(step.after))
            provider.settle(request, before.physical_id)
        self.stack.set_resource_status(before, "UPDATE_COMPLETE")

    def remove(self, state: ResourceState, *, retain: bool) -> None:
        """Delete a resource, or retain it if its policy says so."""
        current = self.stack.resources.get(state.logical_id)
        # Another resource may have the logical id now; then only the events mention this one.
        elsewhere = current is not None and current.physical_id != state.physical_id

        def note(status: str, reason: str | None = None) -> None:
            self.stack.set_resource_status(state, status, reason, event_only=elsewhere)

        if retain:
            note("DELETE_SKIPPED")
            return
        note("DELETE_IN_PROGRESS")
        try:
            self.providers[state.type].delete(self.request(state), state.physical_id)
        except Exception as error:
            note("DELETE_FAILED", reason_of(error))
            raise
        note("DELETE_COMPLETE")

    def request(self, state: ResourceState) -> ResourceRequest:
        """Return the provider request of a resource."""
        return ResourceRequest(
            logical_id=state.logical_id,
            properties=state.properties,
            stack=self.stack.identity,
            clients=self.clients,
            specification=self.providers[state.type].properties,
            cancelled=self.stack.cancelled,
        )

    def _replace(self, before: ResourceState, wanted: ResourceState) -> None:
        name = self.providers[wanted.type].name.property
        if name and wanted.properties.get(name) and wanted.properties[name] == before.properties.get(name):
            message = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {wanted.properties[name]} and update the stack again."
            )
            self.stack.set_resource_status(before, "UPDATE_FAILED", message)
            raise StepError(message)
        reason = "Requested update requires the creation of a new physical resource; hence creating one."
        self._run(StackStep(before, wanted), "UPDATE", reason)

    def _run(self, step: StackStep, word: str, reason: str | None = None) -> None:
        """Create or change a resource; the step is recorded, so that it can be undone."""
        stack, provider = self.stack, self.providers[step.after.type]
        stack.set_resource_status(step.before or step.after, f"{word}_IN_PROGRESS", reason)
        with stack.changing():
            stack.unfinished.append(step)
        try:
            if step.before is not None and not step.made:
                provider.update(self.request(step.after), step.before.physical_id, self.request(step.before))
            else:
                with self.changing():  # a saved stack knows every saved resource of its
                    physical_id = provider.create(self.request(step.after))
                    with stack.changing():
                        step.after = replace(step.after, physical_id=physical_id)
                stack.set_resource_status(step.after, f"{word}_IN_PROGRESS", "Resource creation Initiated")
            state = self._settled(step.after)
        except Exception as error:
            if not step.after.physical_id or isinstance(error, UnchangeableError):
                with stack.changing():
                    stack.unfinished.remove(step)
            shown = step.after if step.after.physical_id else step.before or step.after
            stack.set_resource_status(shown, f"{word}_FAILED", reason_of(error))
            raise StepError(reason_of(error)) from error
        with stack.changing():
            step.after = state
            stack.set_resource_status(state, f"{word}_COMPLETE")
            self._keep(state)

    def _settled(self, state: ResourceState) -> ResourceState:
        provider, request = self.providers[state.type], self.request(state)
        provider.settle(request, state.physical_id)
        return replace(state, attributes=provider.read(request, state.physical_id))

    def _keep(self, state: ResourceState) -> None:
        with self.stack.changing():
            self.stack.resources[state.logical_id] = state


class StepError(Exception):
    """A step failed; the stack's events have the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def reason_of(error: BaseException) -> str:
    """Return an error as the status reason of a resource."""
    if isinstance(error, StepError):
        return error.reason
    if isinstance(error, ClientError):
        return (
            f"{aws_error_message(error)} (Operation: {error.operation_name}, Code: {aws_error_code(error)})"
        )
    if isinstance(error, ProviderError | CloudFormationError | BotoCoreError):
        return str(error)
    _log.error("internal error in a resource provider", exc_info=error)
    return f"Internal failure of the local cloud: {type(error).__name__}: {error}"
