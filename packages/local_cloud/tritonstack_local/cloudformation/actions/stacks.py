"""Actions that create, change, and delete stacks."""

from __future__ import annotations

import re
import uuid

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.errors import AlreadyExistsError, CloudFormationError
from tritonstack_local.cloudformation.records import Stack, StackSettings, timestamp
from tritonstack_local.cloudformation.templates.evaluation import StackIdentity

_UPDATABLE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"}
_STACK = "StackName TemplateBody TemplateURL Parameters Capabilities Tags RoleARN"


@action("CreateStack", takes=f"{_STACK} EnableTerminationProtection", accepts="ClientRequestToken")
def create_stack(context: ActionContext, params: Params) -> Answer:
    """Create a stack."""
    if context.store.find(context.scope, params["StackName"]) is not None:
        raise AlreadyExistsError(f"Stack [{params['StackName']}] already exists")
    stack = new_stack(context, params["StackName"])
    stack.termination_protection = bool(params.get("EnableTerminationProtection", False))
    proposal = context.engine.propose(stack, params, stack_settings(params))
    context.store.add(context.scope, stack)
    context.engine.create(stack, proposal)
    return {"StackId": stack.identity.stack_id}


@action("UpdateStack", takes=f"{_STACK} UsePreviousTemplate", accepts="ClientRequestToken")
def update_stack(context: ActionContext, params: Params) -> Answer:
    """Update a stack."""
    stack = context.store.get(context.scope, params["StackName"])
    check_updatable(stack)
    proposal = context.engine.propose(stack, params, stack_settings(params, previous=stack.settings))
    if not proposal.changes_anything:
        raise CloudFormationError("No updates are to be performed.")
    context.engine.update(stack, proposal)
    return {"StackId": stack.identity.stack_id}


@action("DeleteStack", takes="StackName", accepts="ClientRequestToken RoleARN")
def delete_stack(context: ActionContext, params: Params) -> Answer:
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


@action("UpdateTerminationProtection", takes="StackName EnableTerminationProtection")
def update_termination_protection(context: ActionContext, params: Params) -> Answer:
    """Enable or disable a stack's termination protection."""
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
