"""Actions that create, change, and delete stacks."""

from __future__ import annotations

import re
import uuid

from tritonstack_local.cloudformation.actions.base import ActionContext, Answer, Params, action
from tritonstack_local.cloudformation.errors import AlreadyExistsError, CloudFormationError
from tritonstack_local.cloudformation.records import Stack, StackSettings, timestamp
from tritonstack_local.cloudformation.templates.evaluation import StackIdentity

_UPDATABLE = {
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
}
_STACK = (
    "StackName TemplateBody TemplateURL Parameters Capabilities Tags NotificationARNs RoleARN "
    "DisableRollback DeploymentConfig"
)


@action("CreateStack", takes=f"{_STACK} OnFailure EnableTerminationProtection", accepts="ClientRequestToken")
def create_stack(context: ActionContext, params: Params) -> Answer:
    """Create a stack."""
    if context.store.find(context.scope, params["StackName"]) is not None:
        raise AlreadyExistsError(f"Stack [{params['StackName']}] already exists")
    stack = new_stack(context, params["StackName"])
    stack.termination_protection = bool(params.get("EnableTerminationProtection", False))
    on_failure = params.get("OnFailure", "ROLLBACK")
    if on_failure == "DELETE":
        raise CloudFormationError("OnFailure DELETE is not implemented in the local cloud")
    settings = stack_settings(params, disable_rollback=on_failure == "DO_NOTHING")
    proposal = context.engine.propose(stack, params, settings)
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


@action(
    "DeleteStack", takes="StackName RetainResources DeploymentConfig", accepts="ClientRequestToken RoleARN"
)
def delete_stack(context: ActionContext, params: Params) -> Answer:
    """Delete a stack; a missing one is not an error."""
    deployment_config(params)
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
    retain = frozenset(params.get("RetainResources", ()))
    if retain and stack.status != "DELETE_FAILED":
        raise CloudFormationError("RetainResources may be given for a stack in status DELETE_FAILED only")
    context.engine.delete(stack, retain=retain)
    return {}


@action("UpdateTerminationProtection", takes="StackName EnableTerminationProtection")
def update_termination_protection(context: ActionContext, params: Params) -> Answer:
    """Enable or disable a stack's termination protection."""
    stack = context.store.get(context.scope, params["StackName"])
    with stack.changing():
        stack.termination_protection = params["EnableTerminationProtection"]
    return {"StackId": stack.identity.stack_id}


@action("ContinueUpdateRollback", takes="StackName ResourcesToSkip", accepts="ClientRequestToken RoleARN")
def continue_update_rollback(context: ActionContext, params: Params) -> Answer:
    """Continue a failed rollback."""
    stack = context.store.get(context.scope, params["StackName"])
    _check_status(stack, {"UPDATE_ROLLBACK_FAILED"}, "ContinueUpdateRollback")
    skip = frozenset(params.get("ResourcesToSkip", ()))
    stuck = {name for name, known in stack.statuses.items() if known.status == "UPDATE_FAILED"}
    if skip - stuck:
        raise CloudFormationError(
            f"The following resource(s) cannot be skipped: [{', '.join(sorted(skip - stuck))}]; "
            f"skipped can be what failed to update: [{', '.join(sorted(stuck))}]"
        )
    context.engine.roll_back(stack, skip=skip)
    return {}


@action("RollbackStack", takes="StackName", accepts="ClientRequestToken RoleARN")
def rollback_stack(context: ActionContext, params: Params) -> Answer:
    """Roll back a failed deployment whose rollback was disabled."""
    stack = context.store.get(context.scope, params["StackName"])
    _check_status(stack, {"CREATE_FAILED", "UPDATE_FAILED", "ROLLBACK_FAILED"}, "RollbackStack")
    context.engine.roll_back(stack)
    return {"StackId": stack.identity.stack_id}


def _check_status(stack: Stack, allowed: set[str], name: str) -> None:
    if stack.status not in allowed:
        raise CloudFormationError(f"{name} cannot be called from current stack status {stack.status}")


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


def stack_settings(
    params: Params, *, previous: StackSettings | None = None, disable_rollback: bool = False
) -> StackSettings:
    """Return the stack settings of a call; omitted ones keep their values."""
    if params.get("NotificationARNs"):
        raise CloudFormationError("NotificationARNs are not implemented in the local cloud")
    previous = previous or StackSettings()
    tags = params.get("Tags")
    disable_rollback = disable_rollback or bool(deployment_config(params).get("DisableRollback", False))
    return StackSettings(
        tags=previous.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags},
        role_arn=params.get("RoleARN", previous.role_arn),
        capabilities=tuple(params.get("Capabilities", ())),
        disable_rollback=bool(params.get("DisableRollback", False)) or disable_rollback,
    )


def deployment_config(params: Params) -> Params:
    """Return a call's DeploymentConfig; deployments always wait for stable resources."""
    config: Params = params.get("DeploymentConfig", {})
    if config.get("Mode", "STANDARD") != "STANDARD":
        raise CloudFormationError("DeploymentConfig.Mode EXPRESS is not implemented in the local cloud")
    return config
