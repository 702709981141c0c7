"""CloudFormation action: deploy a template from an artifact, directly or by a change set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_message
from tritonstack.base.files import parse_json
from tritonstack_local.codepipeline.actions.work import POLL_S, ActionOutcome, Work, reason_of
from tritonstack_local.codepipeline.errors import ActionFailedError

_GONE = "does not exist"
_NOTHING_TO_DO = ("No updates are to be performed", "didn't contain changes")


def deploy(work: Work) -> ActionOutcome:
    """Run the action in its mode."""
    mode = work.setting("ActionMode")
    if mode not in _MODES:
        raise ActionFailedError(
            "ConfigurationError", f"The local cloud offers {', '.join(_MODES)}, not the mode {mode}"
        )
    try:
        return _MODES[mode](work)
    except ClientError as error:
        raise reason_of(error) from error


def _create_or_update(work: Work) -> ActionOutcome:
    cloudformation, name = work.client("cloudformation"), work.setting("StackName")
    if not work.look().external_id:
        exists = _stack(work) is not None
        call = cloudformation.update_stack if exists else cloudformation.create_stack
        try:
            made = call(StackName=name, **_template(work))
        except ClientError as error:
            if not _is_nothing_to_do(aws_error_message(error)):
                raise
            return _unchanged(work)
        work.note(external_id=made["StackId"])
    return _settled(work)


def _replace_change_set(work: Work) -> ActionOutcome:
    cloudformation, name = work.client("cloudformation"), work.setting("StackName")
    change_set = work.setting("ChangeSetName")
    stack = _stack(work)
    if stack is not None:
        cloudformation.delete_change_set(StackName=name, ChangeSetName=change_set)
    is_new = stack is None or stack["StackStatus"] == "REVIEW_IN_PROGRESS"
    made = cloudformation.create_change_set(
        StackName=name,
        ChangeSetName=change_set,
        ChangeSetType="CREATE" if is_new else "UPDATE",
        **_template(work),
    )
    work.note(external_id=made["Id"])
    while True:
        found = cloudformation.describe_change_set(ChangeSetName=made["Id"])
        if found["Status"] == "CREATE_COMPLETE":
            return ActionOutcome(summary=f"Change set {change_set} was created.")
        reason = found.get("StatusReason", "")
        if found["Status"] == "FAILED":
            if _is_nothing_to_do(reason):
                return ActionOutcome(summary=f"Change set {change_set} was created: it changes nothing.")
            raise ActionFailedError("JobFailed", reason)
        work.pause(POLL_S)


def _execute_change_set(work: Work) -> ActionOutcome:
    cloudformation, name = work.client("cloudformation"), work.setting("StackName")
    if not work.look().external_id:
        asked = {"StackName": name, "ChangeSetName": work.setting("ChangeSetName")}
        found = cloudformation.describe_change_set(**asked)
        if found["Status"] == "FAILED" and _is_nothing_to_do(found.get("StatusReason", "")):
            cloudformation.delete_change_set(**asked)
            return _unchanged(work)
        cloudformation.execute_change_set(**asked)
        work.note(external_id=found["StackId"])
    return _settled(work)


def _delete(work: Work) -> ActionOutcome:
    stack = _stack(work)
    if stack is None:
        return ActionOutcome(summary="There is no such stack.")
    work.client("cloudformation").delete_stack(StackName=work.setting("StackName"))
    while True:
        found = work.client("cloudformation").describe_stacks(StackName=stack["StackId"])["Stacks"][0]
        if found["StackStatus"] == "DELETE_COMPLETE":
            return ActionOutcome(summary="The stack was deleted.")
        if not found["StackStatus"].endswith("_IN_PROGRESS"):
            raise ActionFailedError("JobFailed", f"Stack is in state: {found['StackStatus']}")
        work.pause(POLL_S)


_MODES: Mapping[str, Callable[[Work], ActionOutcome]] = {
    "CREATE_UPDATE": _create_or_update,
    "CHANGE_SET_REPLACE": _replace_change_set,
    "CHANGE_SET_EXECUTE": _execute_change_set,
    "DELETE_ONLY": _delete,
}


def _settled(work: Work) -> ActionOutcome:
    """Wait for the end of an operation; the stack's outputs become variables."""
    while True:
        stack = _stack(work)
        if stack is None:
            raise ActionFailedError("JobFailed", f"The stack {work.setting('StackName')} is gone")
        status = stack["StackStatus"]
        if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
            return ActionOutcome(variables=_outputs(stack), summary=f"Stack {status}")
        if not status.endswith("_IN_PROGRESS"):
            raise ActionFailedError(
                "JobFailed", f"Stack is in state: {status}. {_first_reason(work)}".strip()
            )
        work.pause(POLL_S)


def _unchanged(work: Work) -> ActionOutcome:
    return ActionOutcome(variables=_outputs(_stack(work) or {}), summary="No updates are to be performed.")


def _outputs(stack: Mapping[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}


def _first_reason(work: Work) -> str:
    """Return the first failure of the latest operation."""
    listed = work.client("cloudformation").describe_stack_events(StackName=work.setting("StackName"))
    for event in reversed(listed["StackEvents"]):
        reason = event.get("ResourceStatusReason", "")
        if event["ResourceStatus"].endswith("_FAILED") and "cancelled" not in reason:
            return f"{event['LogicalResourceId']}: {reason}"
    return ""


def _stack(work: Work) -> dict[str, Any] | None:
    try:
        listed = work.client("cloudformation").describe_stacks(StackName=work.setting("StackName"))
    except ClientError as error:
        if _GONE in aws_error_message(error):
            return None
        raise
    found: dict[str, Any] = listed["Stacks"][0]
    return found


def _template(work: Work) -> dict[str, Any]:
    """Return template and settings; the template is passed through S3, since it may be large."""
    key = f"{work.pipeline[:20]}/templates/{work.look().id}"
    work.store.put_object(Bucket=work.bucket, Key=key, Body=work.read(work.setting("TemplatePath")))
    configuration = work.settings.get("TemplateConfiguration")
    configured = work.read_json(configuration) if configuration else {}
    overrides = parse_json(work.settings.get("ParameterOverrides", "{}"))
    parameters = {**configured.get("Parameters", {}), **overrides}
    options = {
        "Capabilities": [name for name in work.settings.get("Capabilities", "").split(",") if name],
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": str(value)} for name, value in parameters.items()
        ],
        "Tags": [{"Key": name, "Value": value} for name, value in configured.get("Tags", {}).items()],
    }
    url = f"{work.clients.endpoint_url}/{work.bucket}/{key}"
    return {"TemplateURL": url, **{name: value for name, value in options.items() if value}}


def _is_nothing_to_do(message: str) -> bool:
    return any(words in message for words in _NOTHING_TO_DO)
