"""API actions on stacks: create, change, delete, and describe them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.engine import Engine
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.evaluation import StackIdentity
from tritonstack_local.cloudformation.records import Stack, StackEvent, StackSettings, StackStore, timestamp
from tritonstack_local.scope import Scope

Params = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class ActionContext:
    """The context of an action."""

    engine: Engine
    scope: Scope

    @property
    def store(self) -> StackStore:
        """All stacks."""
        return self.engine.store


@dataclass(frozen=True)
class Action:
    """An action, the parameters that it uses, and those accepted without effect; others are rejected."""

    run: Callable[[ActionContext, Params], Answer]
    takes: str
    accepts: str = ""

    @property
    def parameters(self) -> set[str]:
        """All parameters of a call."""
        return {*self.takes.split(), *self.accepts.split()}


ONLY_DEFAULT: Params = {
    "DeploymentConfig": {"Mode": "STANDARD"},
    "DisableRollback": False,
    "NotificationARNs": [],
    "OnFailure": "ROLLBACK",
    "OnStackFailure": "ROLLBACK",
    "RetainResources": [],
}
"""Parameters that are not implemented, with the value that changes nothing."""
_UPDATABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
_GONE = {"DELETE_COMPLETE", "DELETE_SKIPPED"}


def _create_stack(context: ActionContext, params: Params) -> Answer:
    context.store.require_unused(context.scope, params["StackName"])
    stack = new_stack(context, params["StackName"])
    stack.termination_protection = bool(params.get("EnableTerminationProtection", False))
    proposal = context.engine.propose(stack, params, stack_settings(params))
    context.store.add(context.scope, stack)
    context.engine.create(stack, proposal)
    return {"StackId": stack.identity.stack_id}


def _update_stack(context: ActionContext, params: Params) -> Answer:
    stack = context.store.get(context.scope, params["StackName"])
    check_updatable(stack)
    proposal = context.engine.propose(stack, params, stack_settings(params, previous=stack.settings))
    if not proposal.changes_anything:
        raise CloudFormationError("No updates are to be performed.")
    context.engine.update(stack, proposal)
    return {"StackId": stack.identity.stack_id}


def _delete_stack(context: ActionContext, params: Params) -> Answer:
    """Delete a stack; a missing one is not an error."""
    stack = context.store.find(context.scope, params["StackName"])
    if stack is None or stack.deleted is not None or stack.status == "DELETE_IN_PROGRESS":
        return {}
    if stack.termination_protection:
        raise CloudFormationError(
            f"Stack [{stack.identity.name}] cannot be deleted while TerminationProtection is enabled"
        )
    if stack.in_progress and stack.status != "CREATE_IN_PROGRESS":
        raise CloudFormationError(
            f"Stack [{stack.identity.name}] cannot be deleted while in status {stack.status}"
        )
    context.engine.delete(stack)
    return {}


def _update_termination_protection(context: ActionContext, params: Params) -> Answer:
    stack = context.store.get(context.scope, params["StackName"])
    with stack.changing():
        stack.termination_protection = params["EnableTerminationProtection"]
    return {"StackId": stack.identity.stack_id}


def check_updatable(stack: Stack) -> None:
    """Reject updates of a stack whose status does not allow them."""
    if stack.status not in _UPDATABLE:
        raise CloudFormationError(
            f"Stack:{stack.identity.stack_id} is in {stack.status} state and can not be updated."
        )


def new_stack(context: ActionContext, name: str) -> Stack:
    """Return a new stack, which is not stored yet."""
    if not re.fullmatch(r"[a-zA-Z][-a-zA-Z0-9]{0,127}", name):
        raise CloudFormationError(
            f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: "
            "Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*"
        )
    scope = context.scope
    stack_id = f"arn:aws:cloudformation:{scope.region}:{scope.account}:stack/{name}/{uuid.uuid4()}"
    identity = StackIdentity(name=name, stack_id=stack_id, account=scope.account, region=scope.region)
    return Stack(identity=identity, created=timestamp())


def stack_settings(params: Params, *, previous: StackSettings | None = None) -> StackSettings:
    """Return the stack settings of a call; omitted ones keep their values."""
    previous = previous or StackSettings()
    tags = params.get("Tags")
    return StackSettings(
        tags=previous.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags},
        role_arn=params.get("RoleARN", previous.role_arn),
        capabilities=tuple(params.get("Capabilities", ())),
    )


def _describe_stacks(context: ActionContext, params: Params) -> Answer:
    name = params.get("StackName")
    stacks = context.store.living(context.scope) if name is None else [context.store.get(context.scope, name)]
    return {"Stacks": [_described(stack) for stack in stacks]}


def _list_stacks(context: ActionContext, params: Params) -> Answer:
    """List stacks, deleted ones included."""
    statuses = params.get("StackStatusFilter")
    stacks = context.store.stacks(context.scope)
    return {
        "StackSummaries": [_summary(stack) for stack in stacks if not statuses or stack.status in statuses]
    }


def _describe_stack_events(context: ActionContext, params: Params) -> Answer:
    """List a stack's events, newest first."""
    stack = context.store.get(context.scope, params["StackName"])
    with stack.lock:
        return {"StackEvents": [_event(stack, event) for event in reversed(stack.events)]}


def _describe_stack_resources(context: ActionContext, params: Params) -> Answer:
    stack = _stack_of(context, params)
    logical_id = params.get("LogicalResourceId")
    return {
        "StackResources": [
            item for item in _resources(stack) if logical_id in {None, item["LogicalResourceId"]}
        ]
    }


def _list_stack_resources(context: ActionContext, params: Params) -> Answer:
    stack = context.store.get(context.scope, params["StackName"])
    return {"StackResourceSummaries": _resources(stack)}


def _stack_of(context: ActionContext, params: Params) -> Stack:
    if "StackName" in params:
        return context.store.get(context.scope, params["StackName"])
    physical_id = params.get("PhysicalResourceId")
    for stack in context.store.living(context.scope):
        if any(state.physical_id == physical_id for state in stack.resources.values()):
            return stack
    raise CloudFormationError(f"Stack for {physical_id} does not exist")


def _described(stack: Stack) -> Answer:
    with stack.lock:
        summary = _summary(stack)
        return {
            **summary,
            "ChangeSetId": stack.change_set_id,
            "Description": summary["TemplateDescription"],
            "Parameters": [parameter.described() for parameter in stack.parameters.values()],
            "DisableRollback": False,
            "NotificationARNs": [],
            "Capabilities": list(stack.settings.capabilities),
            "Outputs": list(stack.outputs),
            "RoleARN": stack.settings.role_arn,
            "Tags": stack.settings.tag_pairs(),
            "EnableTerminationProtection": stack.termination_protection,
        }


def _summary(stack: Stack) -> Answer:
    return {
        "StackId": stack.identity.stack_id,
        "StackName": stack.identity.name,
        "TemplateDescription": (stack.template.description or None) if stack.template else None,
        "CreationTime": stack.created,
        "LastUpdatedTime": stack.updated,
        "DeletionTime": stack.deleted,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason,
        "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
    }


def _event(stack: Stack, event: StackEvent) -> Answer:
    """Return an event, or with it the state of a resource; an answer contains the fields of its own shape."""
    return {
        "StackId": stack.identity.stack_id,
        "StackName": stack.identity.name,
        "EventId": event.event_id,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.timestamp,
        "LastUpdatedTimestamp": event.timestamp,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason,
        "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
    }


def _resources(stack: Stack) -> list[Answer]:
    with stack.lock:
        return [
            _event(stack, event)
            for event in stack.statuses.values()
            if stack.deleted is not None or event.status not in _GONE
        ]


_STACK = "StackName TemplateBody TemplateURL Parameters Capabilities Tags RoleARN"
_TOKEN, _NEXT = "ClientRequestToken", "NextToken"
ACTIONS: Mapping[str, Action] = {
    "CreateStack": Action(_create_stack, f"{_STACK} EnableTerminationProtection", _TOKEN),
    "UpdateStack": Action(_update_stack, f"{_STACK} UsePreviousTemplate", _TOKEN),
    "DeleteStack": Action(_delete_stack, "StackName", f"{_TOKEN} RoleARN"),
    "UpdateTerminationProtection": Action(
        _update_termination_protection, "StackName EnableTerminationProtection"
    ),
    "DescribeStacks": Action(_describe_stacks, "StackName", _NEXT),
    "ListStacks": Action(_list_stacks, "StackStatusFilter", _NEXT),
    "DescribeStackEvents": Action(_describe_stack_events, "StackName", _NEXT),
    "DescribeStackResources": Action(
        _describe_stack_resources, "StackName LogicalResourceId PhysicalResourceId"
    ),
    "ListStackResources": Action(_list_stack_resources, "StackName", _NEXT),
}
