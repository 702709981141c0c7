"""API actions on change sets, and on the templates of stacks."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping

from tritonstack_local.cloudformation.changes import Change, PropertyChange, ResourceReplacement
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import ChangeSet, Proposal, Stack, timestamp
from tritonstack_local.cloudformation.stack_actions import (
    Action,
    ActionContext,
    Answer,
    Params,
    check_updatable,
    new_stack,
    stack_settings,
)

_NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
_RECREATION = {
    ResourceReplacement.NEVER: "Never",
    ResourceReplacement.CONDITIONAL: "Conditionally",
    ResourceReplacement.ALWAYS: "Always",
}
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _create_change_set(context: ActionContext, params: Params) -> Answer:
    stack = _stack_for(context, params["StackName"], params.get("ChangeSetType", "UPDATE"))
    if any(change_set.name == params["ChangeSetName"] for change_set in stack.change_sets.values()):
        message = f"ChangeSet {params['ChangeSetName']} already exists"
        raise CloudFormationError(message, code="AlreadyExistsException")
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


def _describe_change_set(context: ActionContext, params: Params) -> Answer:
    stack, change_set = _find(context, params)
    proposal = change_set.proposal
    return {
        **_summary(stack, change_set),
        "Parameters": [parameter.described() for parameter in proposal.evaluation.parameters.values()],
        "NotificationARNs": [],
        "Capabilities": list(proposal.settings.capabilities),
        "Tags": proposal.settings.tag_pairs(),
        "Changes": [
            {"Type": "Resource", "ResourceChange": _described(change)} for change in proposal.changes
        ],
    }


def _execute_change_set(context: ActionContext, params: Params) -> Answer:
    stack, change_set = _find(context, params)
    with stack.changing():  # only one of several concurrent calls executes it
        if change_set.execution_status != "AVAILABLE":
            raise CloudFormationError(
                f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current execution "
                f"status of [{change_set.execution_status}]",
                code="InvalidChangeSetStatus",
            )
        change_set.execution_status = "EXECUTE_COMPLETE"
        stack.change_set_id = change_set.change_set_id
    if stack.status == "REVIEW_IN_PROGRESS":
        context.engine.create(stack, change_set.proposal)
    else:
        context.engine.update(stack, change_set.proposal)
    return {}


def _delete_change_set(context: ActionContext, params: Params) -> Answer:
    """Delete a change set; a missing one is not an error."""
    for stack, change_set in _matching(context, params):
        with stack.changing():
            stack.change_sets.pop(change_set.change_set_id, None)
    return {}


def _list_change_sets(context: ActionContext, params: Params) -> Answer:
    stack = context.store.get(context.scope, params["StackName"])
    return {"Summaries": [_summary(stack, change_set) for change_set in stack.change_sets.values()]}


def _matching(context: ActionContext, params: Params) -> Iterator[tuple[Stack, ChangeSet]]:
    """Yield a call's change set, given by id or by name and stack."""
    name, store = params.get("StackName"), context.store
    stacks = store.living(context.scope) if name is None else [store.find(context.scope, name)]
    for stack in filter(None, stacks):
        for change_set in list(stack.change_sets.values()):
            if params["ChangeSetName"] in {change_set.change_set_id, change_set.name}:
                yield stack, change_set


def _find(context: ActionContext, params: Params) -> tuple[Stack, ChangeSet]:
    for stack, change_set in _matching(context, params):
        return stack, change_set
    message = f"ChangeSet [{params['ChangeSetName']}] does not exist"
    raise CloudFormationError(message, code="ChangeSetNotFound")


def _get_template(context: ActionContext, params: Params) -> Answer:
    """Return the submitted template; without transforms both stages are equal.

    As on AWS, non-ASCII characters are shown as question marks; resources get the original ones.
    """
    template = (
        _find(context, params)[1].proposal.evaluation.template
        if "ChangeSetName" in params
        else context.store.get(context.scope, params["StackName"]).template
    )
    body = template.body if template else ""  # a stack under review has none
    return {"TemplateBody": _BEYOND_ASCII.sub("?", body), "StagesAvailable": ["Original", "Processed"]}


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


def _described(change: Change) -> Answer:
    modified = change.action == "Modify"
    properties = [_property_detail(item) for item in change.properties]
    others = [_detail({"Attribute": scope, "RequiresRecreation": "Never"}) for scope in change.other_scopes]
    return {
        "Action": change.action,
        "LogicalResourceId": change.logical_id,
        "PhysicalResourceId": change.before.physical_id if change.before else None,
        "ResourceType": change.type,
        "Replacement": change.replacement.value if modified else None,
        "PolicyAction": _policy_action(change),
        "Scope": [*(["Properties"] if properties else []), *change.other_scopes] if modified else [],
        "Details": properties + others,
    }


def _policy_action(change: Change) -> str | None:
    before = change.before
    if before is None:
        return None
    if change.action == "Remove":
        return "Delete" if before.resource.deletion_policy == "Delete" else "Retain"
    if change.replacement is ResourceReplacement.NEVER:
        return None
    return "ReplaceAndDelete" if before.resource.update_replace_policy == "Delete" else "ReplaceAndRetain"


def _property_detail(change: PropertyChange) -> Answer:
    target = {
        "Attribute": "Properties",
        "Name": change.name,
        "RequiresRecreation": _RECREATION[change.replacement],
        "Path": f"/Properties/{change.name}",
    }
    cause = change.caused_by
    if cause is None:
        return _detail(target)
    source = "ResourceAttribute" if "." in cause else "ResourceReference"
    return _detail(target) | {"Evaluation": "Dynamic", "ChangeSource": source, "CausingEntity": cause}


def _detail(target: Answer) -> Answer:
    return {"Target": target, "Evaluation": "Static", "ChangeSource": "DirectModification"}


ACTIONS: Mapping[str, Action] = {
    "CreateChangeSet": Action(
        _create_change_set,
        "StackName ChangeSetName ChangeSetType Description TemplateBody TemplateURL Parameters Capabilities "
        "Tags RoleARN",
        # `cdk bootstrap` asks for imports; a resource whose name is in use fails here instead.
        "ClientToken ImportExistingResources IncludeNestedStacks",
    ),
    # The CDK asks for property values, and does without them.
    "DescribeChangeSet": Action(
        _describe_change_set, "StackName ChangeSetName", "IncludePropertyValues NextToken"
    ),
    "ExecuteChangeSet": Action(_execute_change_set, "StackName ChangeSetName", "ClientRequestToken"),
    "DeleteChangeSet": Action(_delete_change_set, "StackName ChangeSetName"),
    "ListChangeSets": Action(_list_change_sets, "StackName", "NextToken"),
    "GetTemplate": Action(_get_template, "StackName ChangeSetName", "TemplateStage"),
}
