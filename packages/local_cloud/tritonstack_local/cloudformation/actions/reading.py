"""Actions that describe stacks, resources, events, and exports."""

from __future__ import annotations

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.errors import CloudFormationError
from tritonstack_local.cloudformation.records import Stack, StackEvent

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
    found = [item for item in _resources(stack) if wanted in {None, item["LogicalResourceId"]}]
    return {"StackResources": [item | _names(stack) for item in found]}


@action("DescribeStackResource", takes="StackName LogicalResourceId")
def describe_stack_resource(context: ActionContext, params: Params) -> Answer:
    """Describe one resource of a stack."""
    stack = context.store.get(context.scope, params["StackName"])
    wanted = params["LogicalResourceId"]
    for item in _resources(stack):
        if item["LogicalResourceId"] == wanted:
            updated = {"LastUpdatedTimestamp": item.pop("Timestamp")}
            return {"StackResourceDetail": item | _names(stack) | updated}
    raise CloudFormationError(f"Resource {wanted} does not exist for stack {stack.identity.name}")


@action("ListStackResources", takes="StackName", accepts="NextToken")
def list_stack_resources(context: ActionContext, params: Params) -> Answer:
    """List the resources of a stack."""
    stack = context.store.get(context.scope, params["StackName"])
    items = _resources(stack)
    return {
        "StackResourceSummaries": [item | {"LastUpdatedTimestamp": item.pop("Timestamp")} for item in items]
    }


@action("ListExports", accepts="NextToken")
def list_exports(context: ActionContext, params: Params) -> Answer:
    """List the exports of all stacks."""
    del params
    return {
        "Exports": [
            {"ExportingStackId": stack.identity.stack_id, "Name": name, "Value": value}
            for name, (stack, value) in sorted(context.store.exports(context.scope).items())
        ]
    }


@action("ListImports", takes="ExportName", accepts="NextToken")
def list_imports(context: ActionContext, params: Params) -> Answer:
    """List the stacks that use an export."""
    name = params["ExportName"]
    users = context.store.importers(context.scope, name)
    if not users:
        raise CloudFormationError(f"Export '{name}' is not imported by any stack.")
    return {"Imports": users}


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
        return {
            "StackId": stack.identity.stack_id,
            "StackName": stack.identity.name,
            "ChangeSetId": stack.change_set_id,
            "Description": (stack.template.description or None) if stack.template else None,
            "Parameters": [parameter.described() for parameter in stack.parameters.values()],
            "CreationTime": stack.created,
            "LastUpdatedTime": stack.updated,
            "DeletionTime": stack.deleted,
            "StackStatus": stack.status,
            "StackStatusReason": stack.reason,
            "DisableRollback": stack.settings.disable_rollback,
            "NotificationARNs": [],
            "Capabilities": list(stack.settings.capabilities),
            "Outputs": [output.described() for output in stack.outputs],
            "RoleARN": stack.settings.role_arn,
            "Tags": [{"Key": key, "Value": value} for key, value in stack.settings.tags.items()],
            "EnableTerminationProtection": stack.termination_protection,
            "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
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
    return {
        **_names(stack),
        "EventId": event.event_id,
        "LogicalResourceId": event.logical_id,
        "PhysicalResourceId": event.physical_id,
        "ResourceType": event.type,
        "Timestamp": event.timestamp,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason,
    }


def _names(stack: Stack) -> Answer:
    return {"StackId": stack.identity.stack_id, "StackName": stack.identity.name}


def _resources(stack: Stack) -> list[Answer]:
    with stack.lock:
        return [
            {
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": known.physical_id,
                "ResourceType": known.type,
                "Timestamp": known.timestamp,
                "ResourceStatus": known.status,
                "ResourceStatusReason": known.reason,
                "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
            }
            for logical_id, known in stack.statuses.items()
            if stack.deleted is not None or known.status not in _GONE
        ]
