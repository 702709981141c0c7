"""Actions on change sets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.actions.stacks import check_updatable, new_stack, stack_settings
from tritonstack_local.cloudformation.changes import Change, PropertyChange, ResourceReplacement
from tritonstack_local.cloudformation.errors import (
    AlreadyExistsError,
    ChangeSetNotFoundError,
    CloudFormationError,
    InvalidChangeSetStatusError,
)
from tritonstack_local.cloudformation.records import ChangeSet, Proposal, Stack, timestamp
from tritonstack_local.cloudformation.templates.intrinsics import UnknownValue

_NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
_RECREATION = {
    ResourceReplacement.NEVER: "Never",
    ResourceReplacement.CONDITIONAL: "Conditionally",
    ResourceReplacement.ALWAYS: "Always",
}


@action(
    "CreateChangeSet",
    takes="StackName ChangeSetName ChangeSetType Description TemplateBody TemplateURL "
    "Parameters Capabilities Tags RoleARN",
    # `cdk bootstrap` asks for imports; a resource whose name is in use fails here instead.
    accepts="ClientToken ImportExistingResources IncludeNestedStacks",
)
def create_change_set(context: ActionContext, params: Params) -> Answer:
    """Plan a deployment."""
    kind = params.get("ChangeSetType", "UPDATE")
    stack = _stack_for(context, params["StackName"], kind)
    if any(known.name == params["ChangeSetName"] for known in stack.change_sets.values()):
        raise AlreadyExistsError(f"ChangeSet {params['ChangeSetName']} already exists")
    proposal = context.engine.propose(stack, params, stack_settings(params, previous=stack.settings))
    change_set = _change_set(stack, params, proposal)
    with stack.changing():
        stack.change_sets[change_set.change_set_id] = change_set
    if context.store.find(context.scope, stack.identity.stack_id) is None:
        context.store.add(context.scope, stack)
        stack.set_status("REVIEW_IN_PROGRESS", reason="User Initiated")
    return {"Id": change_set.change_set_id, "StackId": stack.identity.stack_id}


def _stack_for(context: ActionContext, name: str, kind: str) -> Stack:
    stack = context.store.find(context.scope, name)
    if kind == "CREATE":
        if stack is None:
            return new_stack(context, name)
        if stack.status != "REVIEW_IN_PROGRESS":
            raise CloudFormationError(f"Stack [{name}] already exists and cannot be created again")
        return stack
    if kind != "UPDATE":
        raise CloudFormationError(f"ChangeSetType {kind} is not implemented in the local cloud")
    if stack is None:
        raise CloudFormationError(f"Stack [{name}] does not exist")
    check_updatable(stack)
    return stack


def _change_set(stack: Stack, params: Params, proposal: Proposal) -> ChangeSet:
    scope = stack.identity
    name = params["ChangeSetName"]
    useful = proposal.changes_anything
    return ChangeSet(
        change_set_id=f"arn:aws:cloudformation:{scope.region}:{scope.account}:changeSet/{name}/{uuid.uuid4()}",
        name=name,
        description=params.get("Description"),
        created=timestamp(),
        proposal=proposal,
        status="CREATE_COMPLETE" if useful else "FAILED",
        reason=None if useful else _NO_CHANGES,
        execution_status="AVAILABLE" if useful else "UNAVAILABLE",
    )


@action(
    "DescribeChangeSet",
    takes="StackName ChangeSetName IncludePropertyValues",
    accepts="NextToken",
)
def describe_change_set(context: ActionContext, params: Params) -> Answer:
    """Describe a change set with all its changes."""
    stack, change_set = find_change_set(context, params)
    proposal = change_set.proposal
    values = bool(params.get("IncludePropertyValues", False))
    return {
        **_summary(stack, change_set),
        "Parameters": [parameter.described() for parameter in proposal.evaluation.parameters.values()],
        "NotificationARNs": [],
        "Capabilities": list(proposal.settings.capabilities),
        "Tags": [{"Key": key, "Value": value} for key, value in proposal.settings.tags.items()],
        "Changes": [
            {"Type": "Resource", "ResourceChange": _described(change, values=values)}
            for change in proposal.changes
        ],
    }


@action("ExecuteChangeSet", takes="StackName ChangeSetName", accepts="ClientRequestToken")
def execute_change_set(context: ActionContext, params: Params) -> Answer:
    """Execute a change set."""
    stack, change_set = find_change_set(context, params)
    with stack.changing():  # only one of several concurrent calls executes it
        if change_set.execution_status != "AVAILABLE":
            raise InvalidChangeSetStatusError(
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current execution "
                f"status of [{change_set.execution_status}]"
            )
        change_set.execution_status = "EXECUTE_COMPLETE"
        stack.change_set_id = change_set.change_set_id
    if stack.status == "REVIEW_IN_PROGRESS":
        context.engine.create(stack, change_set.proposal)
    else:
        context.engine.update(stack, change_set.proposal)
    return {}


@action("DeleteChangeSet", takes="StackName ChangeSetName")
def delete_change_set(context: ActionContext, params: Params) -> Answer:
    """Delete a change set; a missing one is not an error."""
    try:
        stack, change_set = find_change_set(context, params)
    except ChangeSetNotFoundError:
        return {}
    with stack.changing():
        stack.change_sets.pop(change_set.change_set_id, None)
    return {}


@action("ListChangeSets", takes="StackName", accepts="NextToken")
def list_change_sets(context: ActionContext, params: Params) -> Answer:
    """List the change sets of a stack."""
    stack = context.store.get(context.scope, params["StackName"])
    return {"Summaries": [_summary(stack, change_set) for change_set in stack.change_sets.values()]}


def find_change_set(context: ActionContext, params: Params) -> tuple[Stack, ChangeSet]:
    """Return a call's change set, given by id or by name and stack."""
    wanted = params["ChangeSetName"]
    name = params.get("StackName")
    stacks = (
        context.store.living(context.scope) if name is None else [context.store.find(context.scope, name)]
    )
    for stack in stacks:
        for change_set in list(stack.change_sets.values()) if stack else ():
            if wanted in {change_set.change_set_id, change_set.name} and stack is not None:
                return stack, change_set
    raise ChangeSetNotFoundError(f"ChangeSet [{wanted}] does not exist")


def _summary(stack: Stack, change_set: ChangeSet) -> Answer:
    return {
        "StackId": stack.identity.stack_id,
        "StackName": stack.identity.name,
        "ChangeSetId": change_set.change_set_id,
        "ChangeSetName": change_set.name,
        "ExecutionStatus": change_set.execution_status,
        "Status": change_set.status,
        "StatusReason": change_set.reason,
        "CreationTime": change_set.created,
        "Description": change_set.description,
        "IncludeNestedStacks": False,
    }


def _described(change: Change, *, values: bool) -> Answer:
    modified = change.action == "Modify"
    scopes = (["Properties"] if change.properties else []) + list(change.other_scopes)
    described: Answer = {
        "Action": change.action,
        "LogicalResourceId": change.logical_id,
        "PhysicalResourceId": change.before.physical_id if change.before else None,
        "ResourceType": change.type,
        "Replacement": change.replacement.value if modified else None,
        "PolicyAction": _policy_action(change),
        "Scope": scopes if modified else [],
        "Details": [_detail(item, values=values) for item in change.properties]
        + [_scope_detail(scope) for scope in change.other_scopes],
    }
    if values:
        described["BeforeContext"] = _context(change.before.properties if change.before else None)
        described["AfterContext"] = _context(change.after)
    return described


def _policy_action(change: Change) -> str | None:
    before = change.before
    if before is None:
        return None
    if change.action == "Remove":
        return "Delete" if before.deletion_policy == "Delete" else "Retain"
    if change.replacement is ResourceReplacement.NEVER:
        return None
    return "ReplaceAndDelete" if before.update_replace_policy == "Delete" else "ReplaceAndRetain"


def _detail(change: PropertyChange, *, values: bool) -> Answer:
    target: Answer = {
        "Attribute": "Properties",
        "Name": change.name,
        "RequiresRecreation": _RECREATION[change.replacement],
        "Path": f"/Properties/{change.name}",
    }
    if values:
        if change.before is not None:
            target["BeforeValue"] = _shown(change.before)
        if change.after is not None:
            target["AfterValue"] = _shown(change.after)
        target["AttributeChangeType"] = (
            "Add" if change.before is None else "Remove" if change.after is None else "Modify"
        )
    cause = change.caused_by
    source = (
        "DirectModification"
        if cause is None
        else "ResourceAttribute"
        if "." in cause
        else "ResourceReference"
    )
    return {
        "Target": target,
        "Evaluation": "Static" if cause is None else "Dynamic",
        "ChangeSource": source,
        "CausingEntity": cause,
    }


def _scope_detail(scope: str) -> Answer:
    return {
        "Target": {"Attribute": scope, "RequiresRecreation": "Never"},
        "Evaluation": "Static",
        "ChangeSource": "DirectModification",
    }


def _context(properties: Mapping[str, Any] | None) -> str | None:
    return None if properties is None else json.dumps({"Properties": properties}, default=str, sort_keys=True)


def _shown(value: Any) -> str:
    if isinstance(value, str | UnknownValue):
        return str(value)
    return json.dumps(value, default=str, sort_keys=True)
