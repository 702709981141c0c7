"""Carries out single steps on resources through their providers, and keeps the stack's history of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from local_cloud.clients import Clients
from local_cloud.cloudformation.changes import Providers, Replacement, ResourceState, compare
from local_cloud.cloudformation.errors import CloudFormationError
from local_cloud.cloudformation.providers.base import ProviderError, ResourceRequest, UnchangeableError
from local_cloud.cloudformation.records import Stack, Step
from local_cloud.cloudformation.template import Resource

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveAnswers:
    """What the resources of a stack answer now."""

    resources: Mapping[str, ResourceState]
    providers: Providers

    def reference(self, logical_id: str) -> Any:
        """Answer `Ref`."""
        state = self.resources[logical_id]
        return self.providers[state.type].reference(state.physical_id)

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Answer `Fn::GetAtt`."""
        return self.resources[logical_id].attributes[attribute]


@dataclass(frozen=True)
class Operations:
    """Steps on the resources of one stack."""

    stack: Stack
    providers: Providers
    clients: Clients

    def bring(self, resource: Resource, properties: Mapping[str, Any], needs: frozenset[str]) -> Step | None:
        """Make, change or replace a resource so that it has these properties; None when it has them."""
        before = self.stack.resources.get(resource.logical_id)
        wanted = _wanted(resource, properties, needs)
        if before is None:
            return self._make(Step(wanted.logical_id, wanted.type, before=None), wanted, word="CREATE")
        changes = compare(self.providers[resource.type], before.properties, properties)
        if not changes:
            self._keep(replace(wanted, physical_id=before.physical_id, attributes=before.attributes))
            return None
        if any(change.replacement is not Replacement.NEVER for change in changes):
            return self._replaced(before, wanted)
        return self._changed(before, wanted)

    def find(self, resource: Resource, properties: Mapping[str, Any]) -> str | None:
        """Return the physical id of a resource that exists already under the name the template gives."""
        request = self.request(_wanted(resource, properties, frozenset()))
        return self.providers[resource.type].find(request)

    def take_in(self, resource: Resource, properties: Mapping[str, Any], needs: frozenset[str]) -> None:
        """Import an existing resource: from now on the stack keeps it as the template says."""
        wanted = _wanted(resource, properties, needs)
        physical_id = self.find(resource, properties)
        if physical_id is None:
            raise ProviderError("the resource to be imported does not exist any more")
        wanted = replace(wanted, physical_id=physical_id)
        self._note(wanted, "IMPORT_IN_PROGRESS")
        provider, request = self.providers[wanted.type], self.request(wanted)
        try:
            provider.settle(request, physical_id)
            wanted = replace(wanted, attributes=provider.attributes(request, physical_id))
        except Exception as error:
            self._note(wanted, "IMPORT_FAILED", reason_of(error))
            raise StepError(wanted.logical_id, reason_of(error), None) from error
        self._note(wanted, "IMPORT_COMPLETE")
        self._keep(wanted)

    def change_back(self, step: Step) -> None:
        """Undo a change in place, or forget the replacement of a resource; made ones are left to `remove`."""
        before = step.before
        if before is None:
            self.stack.resources.pop(step.logical_id, None)
            return
        if step.after is not None and not step.made:
            self._note(before, "UPDATE_IN_PROGRESS")
            provider, request = self.providers[before.type], self.request(before)
            provider.update(request, before.physical_id, self.request(step.after))
            provider.settle(request, before.physical_id)
        self._note(before, "UPDATE_COMPLETE")
        self._keep(before)

    def remove(self, state: ResourceState, *, retain: bool) -> None:
        """Delete a resource, or leave it standing when its policy says so."""
        if retain:
            self._note(state, "DELETE_SKIPPED")
            return
        self._note(state, "DELETE_IN_PROGRESS")
        try:
            self.providers[state.type].delete(self.request(state), state.physical_id)
        except Exception as error:
            self._note(state, "DELETE_FAILED", reason_of(error))
            raise
        self._note(state, "DELETE_COMPLETE")

    def request(self, state: ResourceState) -> ResourceRequest:
        """Return what a provider is told about a resource."""
        return ResourceRequest(
            logical_id=state.logical_id,
            properties=state.properties,
            stack=self.stack.identity,
            clients=self.clients,
            specification=self.providers[state.type].properties,
            cancelled=self.stack.cancelled,
        )

    def _replaced(self, before: ResourceState, wanted: ResourceState) -> Step:
        step = Step(wanted.logical_id, wanted.type, before=before)
        self._refuse_named_replacement(before, wanted)
        reason = "Requested update requires the creation of a new physical resource; hence creating one."
        return self._make(step, wanted, word="UPDATE", reason=reason)

    def _refuse_named_replacement(self, before: ResourceState, wanted: ResourceState) -> None:
        name = self.providers[wanted.type].name_property
        if name and wanted.properties.get(name) and wanted.properties[name] == before.properties.get(name):
            message = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {wanted.properties[name]} and update the stack again."
            )
            self._note(before, "UPDATE_FAILED", message)
            raise StepError(wanted.logical_id, message, None)

    def _make(self, step: Step, wanted: ResourceState, *, word: str, reason: str | None = None) -> Step:
        old = step.before or wanted
        self._note(old, f"{word}_IN_PROGRESS", reason)
        provider, request = self.providers[wanted.type], self.request(wanted)
        try:
            physical_id = provider.create(request)
            made = replace(wanted, physical_id=physical_id)
            step.after = made
            self._note(made, f"{word}_IN_PROGRESS", "Resource creation Initiated")
            provider.settle(request, physical_id)
            made = replace(made, attributes=provider.attributes(request, physical_id))
        except Exception as error:
            raise self._failed(step, step.after or old, word, error) from error
        step.after = made
        self._note(made, f"{word}_COMPLETE")
        self._keep(made)
        return step

    def _changed(self, before: ResourceState, wanted: ResourceState) -> Step:
        wanted = replace(wanted, physical_id=before.physical_id)
        step = Step(wanted.logical_id, wanted.type, before=before, after=wanted)
        self._note(wanted, "UPDATE_IN_PROGRESS")
        provider, request = self.providers[wanted.type], self.request(wanted)
        try:
            provider.update(request, wanted.physical_id, self.request(before))
            provider.settle(request, wanted.physical_id)
            attributes = provider.attributes(request, wanted.physical_id)
        except Exception as error:
            undoable = None if isinstance(error, UnchangeableError) else step
            raise self._failed(undoable, wanted, "UPDATE", error) from error
        self._note(wanted, "UPDATE_COMPLETE")
        self._keep(replace(wanted, attributes=attributes))
        return step

    def _failed(self, step: Step | None, state: ResourceState, word: str, error: Exception) -> StepError:
        reason = reason_of(error)
        self._note(state, f"{word}_FAILED", reason)
        return StepError(state.logical_id, reason, step)

    def _keep(self, state: ResourceState) -> None:
        with self.stack.lock:
            self.stack.resources[state.logical_id] = state

    def _note(self, state: ResourceState, status: str, reason: str | None = None) -> None:
        self.stack.set_resource_status(
            state.logical_id,
            type_name=state.type,
            physical_id=state.physical_id,
            status=status,
            reason=reason,
        )


def _wanted(resource: Resource, properties: Mapping[str, Any], needs: frozenset[str]) -> ResourceState:
    return ResourceState(
        logical_id=resource.logical_id,
        type=resource.type,
        physical_id="",
        properties=properties,
        attributes={},
        depends_on=needs,
        metadata=resource.metadata,
        deletion_policy=resource.deletion_policy,
        update_replace_policy=resource.update_replace_policy,
    )


class StepError(Exception):
    """A step failed; `step` says what may have been left behind."""

    def __init__(self, logical_id: str, reason: str, step: Step | None) -> None:
        super().__init__(reason)
        self.logical_id = logical_id
        self.reason = reason
        self.step = step


def reason_of(error: BaseException) -> str:
    """Return an error as the status reason of a resource."""
    if isinstance(error, StepError):
        return error.reason
    if isinstance(error, ClientError):
        answer = error.response["Error"]
        return (
            f"{answer.get('Message', '')} (Operation: {error.operation_name}, Code: {answer.get('Code', '')})"
        )
    if isinstance(error, ProviderError | CloudFormationError | BotoCoreError):
        return str(error)
    _log.error("a resource provider broke", exc_info=error)
    return f"Internal failure of the embedded cloud: {type(error).__name__}: {error}"
