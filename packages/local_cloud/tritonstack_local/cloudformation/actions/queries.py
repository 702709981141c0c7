"""Actions that only read: stacks, resources, events, and templates."""

from __future__ import annotations

import re

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.actions.change_sets import find_change_set
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Stack, StackEvent
from tritonstack_local.cloudformation.templates.template import StackTemplate

_GONE = {"DELETE_COMPLETE", "DELETE_SKIPPED"}


@action("DescribeStacks", takes="StackName", accepts="NextToken")
def describe_stacks(context: ActionContext, params: Params) -> Answer:
    """Describe one stack, or all stacks that are not deleted."""
    name = params.get("StackName")
    stacks = context.store.living(context.scope) if name is None else [context.store.get(context.scope, name)]
    return {"Stacks": [_described(stack) for stack in stacks]}


@action("ListStacks", takes="StackStatusFilter", accepts="NextToken")
def list_stacks(context: ActionContext, params: Params) -> Answer:
    """List stacks, deleted ones included."""
    wanted = params.get("StackStatusFilter")
    stacks = [stack for stack in context.store.stacks(context.scope) if not wanted or stack.status in wanted]
    return {"StackSummaries": [_summary(stack) for stack in stacks]}


@action("DescribeStackEvents", takes="StackName", accepts="NextToken")
def describe_stack_events(context: ActionContext, params: Params) -> Answer:
    """List a stack's events, newest first."""
    stack = context.store.get(context.scope, params["StackName"])
    with stack.lock:
        return {"StackEvents": [_event(stack, event) for event in reversed(stack.events)]}


@action("DescribeStackResources", takes="StackName LogicalResourceId PhysicalResourceId")
def describe_stack_resources(context: ActionContext, params: Params) -> Answer:
    """Describe the resources of a stack."""
    stack = _stack_of(context, params)
    wanted = params.get("LogicalResourceId")
    return {
        "StackResources": [item for item in _resources(stack) if wanted in {None, item["LogicalResourceId"]}]
    }


@action("ListStackResources", takes="StackName", accepts="NextToken")
def list_stack_resources(context: ActionContext, params: Params) -> Answer:
    """List the resources of a stack."""
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
            "Outputs": [output.described() for output in stack.outputs],
            "RoleARN": stack.settings.role_arn,
            "Tags": [{"Key": key, "Value": value} for key, value in stack.settings.tags.items()],
            "EnableTerminationProtection": stack.termination_protection,
        }


def _summary(stack: Stack) -> Answer:
    return {
        **_names(stack),
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
        **_names(stack),
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


def _names(stack: Stack) -> Answer:
    return {"StackId": stack.identity.stack_id, "StackName": stack.identity.name}


def _resources(stack: Stack) -> list[Answer]:
    with stack.lock:
        return [
            _event(stack, event)
            for event in stack.statuses.values()
            if stack.deleted is not None or event.status not in _GONE
        ]


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


@action("GetTemplate", takes="StackName ChangeSetName", accepts="TemplateStage")
def get_template(context: ActionContext, params: Params) -> Answer:
    """Return the submitted template; without transforms both stages are equal.

    As on AWS, non-ASCII characters are shown as question marks; resources get the original ones.
    """
    stack = context.store.get(context.scope, params["StackName"])
    under_review = stack.template is None and "ChangeSetName" not in params
    body = "" if under_review else _known_template(context, params).body
    return {"TemplateBody": _BEYOND_ASCII.sub("?", body), "StagesAvailable": ["Original", "Processed"]}


def _known_template(context: ActionContext, params: Params) -> StackTemplate:
    if "ChangeSetName" in params:
        return find_change_set(context, params)[1].proposal.evaluation.template
    stack = context.store.get(context.scope, params["StackName"])
    if stack.template is None:
        raise CloudFormationError(f"Stack {stack.identity.name} has no template yet")
    return stack.template
