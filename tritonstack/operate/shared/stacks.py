"""Read an environment's CloudFormation stacks and wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError, aws_error_code
from tritonstack.base.files import parse_json
from tritonstack.operate.shared.aws import Cloud, if_present, pages

CHANGE_SET = "cdk-deploy-change-set"
"""The CDK's name of the change set that a deployment executes."""
OUR_DESCRIPTION = "tritonstack:"
"""How the description of each stack of this project begins."""
DELETED = "DELETE_COMPLETE"
_POLL_S = 0.5
_SLOW_POLL_S = 5.0
_REASONS = 3
_SETTLED = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "IMPORT_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
    "IMPORT_ROLLBACK_COMPLETE",
)
_NEVER_CREATED = ("REVIEW_", "ROLLBACK_", "CREATE_FAILED", "DELETE_")


class DeletionError(TritonstackError):
    """A stack, bucket, or running build could not be deleted. Remove what keeps it, and rerun the command; it
    resumes.
    """

    code = "TS508"
    title = "Deletion failed"


@dataclass(frozen=True)
class StackState:
    """One CloudFormation stack."""

    name: str
    status: str
    reason: str = ""
    protected: bool = False
    """Whether CloudFormation rejects its deletion."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Parameter values; SSM parameters are already resolved."""

    @property
    def in_review(self) -> bool:
        """Return whether its first change set was never executed: it has no template, resources, or tags."""
        return self.status == "REVIEW_IN_PROGRESS"

    @property
    def in_progress(self) -> bool:
        """Return whether an operation is in progress."""
        return self.status.endswith("_IN_PROGRESS") and not self.in_review

    @property
    def failure(self) -> str | None:
        """Return why the stack cannot be used as deployed; None if it is complete."""
        if self.in_progress:
            return f"a CloudFormation operation is in progress ({self.status})"
        if self.status in _SETTLED:
            return None
        if self.in_review:
            return f"its first change set was never executed ({self.status})"
        return f"its status is {self.status}{f': {self.reason}' if self.reason else ''}"

    @property
    def was_created(self) -> bool:
        """Return whether the stack was ever created, so a deployment updates it; the CDK recreates other
        stacks."""
        return not self.status.startswith(_NEVER_CREATED)


def list_stacks(cloud: Cloud, *, prefix: str) -> list[StackState]:
    """Return the stacks whose names begin with `prefix`."""
    stacks = pages(cloud.client("cloudformation"), "describe_stacks", "Stacks")
    return [_state(stack) for stack in stacks if stack["StackName"].startswith(prefix)]


def _state(stack: Mapping[str, Any]) -> StackState:
    return StackState(
        stack["StackName"],
        stack["StackStatus"],
        stack.get("StackStatusReason", ""),
        stack.get("EnableTerminationProtection", False),
        _tags(stack),
        stack.get("Description", ""),
        {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", ())},
        {
            parameter["ParameterKey"]: parameter.get("ResolvedValue", parameter.get("ParameterValue", ""))
            for parameter in stack.get("Parameters", ())
        },
    )


def _tags(described: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def with_planned_tags(cloud: Cloud, stack: StackState) -> StackState:
    """Return a stack in review with the tags of its change set; CloudFormation sets them on execution."""
    if not stack.in_review:
        return stack
    try:
        planned = cloud.client("cloudformation").describe_change_set(
            StackName=stack.name, ChangeSetName=CHANGE_SET
        )
    except ClientError as error:
        # Deployed or deleted meanwhile, not created by the CDK, or not a stack that this role may delete.
        if aws_error_code(error) in ("ChangeSetNotFound", "ValidationError", "AccessDenied"):
            return stack
        raise
    return replace(stack, tags=_tags(planned))


def is_own(stack: StackState) -> bool:
    """Return whether a stack is of this project: by its description, or without one by its tags.

    Stacks in review have planned tags. Of deleted stacks only resources and their tags remain.
    """
    if stack.in_review or stack.status == DELETED:
        return is_marked(stack.name, stack.tags)
    return stack.description.startswith(OUR_DESCRIPTION)


def is_marked(stack: str, tags: Mapping[str, str]) -> bool:
    """Return whether tags name the project and environment of a stack: other teams' names may be alike."""
    prefix, environment = (tags.get(key, "") for key in ("project", "environment"))
    base = naming.environment_prefix(prefix=prefix, environment=environment)
    return naming.base_of_stack(stack) == base


def environment_stacks(cloud: Cloud, base: str) -> list[StackState]:
    """Return the stacks of one environment, without environments whose names merely share the prefix."""
    stacks = list_stacks(cloud, prefix=f"{base}-")
    return [stack for stack in stacks if naming.base_of_stack(stack.name) == base]


def describe_stack(cloud: Cloud, name: str) -> StackState | None:
    """Return a stack; None if it does not exist."""
    answer = if_present(cloud.client("cloudformation").describe_stacks, StackName=name)
    return _state(answer["Stacks"][0]) if answer else None


def stack_resources(cloud: Cloud, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of a stack."""
    client = cloud.client("cloudformation")
    yield from pages(client, "list_stack_resources", "StackResourceSummaries", StackName=name)


def stored_template(
    cloud: Cloud, name: str, *, stage: Literal["Original", "Processed"]
) -> dict[str, Any] | None:
    """Return the template of a stack; None if the stack does not exist or was never executed."""
    client = cloud.client("cloudformation")
    answer = if_present(client.get_template, StackName=name, TemplateStage=stage)
    # botocore parses JSON. Of a stack in review, CloudFormation returns an empty text.
    body: Any = answer["TemplateBody"] if answer else None
    try:
        template: dict[str, Any] = parse_json(body) if isinstance(body, str) and body else body
    except ValueError:
        raise DeletionError(
            f"stack {name} has the name of an environment's stack, but its template is not JSON",
            remedy="the CDK did not deploy it: delete it, or give the environment another name",
        ) from None
    return template or None


def wait_until_settled(
    cloud: Cloud, names: Iterable[str], *, on_change: Callable[[StackState], None]
) -> None:
    """Wait until no stack has an operation in progress."""
    for name in names:
        reported = ""
        for pause in poll_pauses():
            state = describe_stack(cloud, name)
            if state is None or not state.in_progress:
                break
            if state.status != reported:
                reported = state.status
                on_change(state)
            time.sleep(pause)


def failures(cloud: Cloud, name: str) -> str:
    """Return why the latest operation on a stack failed, as CloudFormation reports it."""
    events = cloud.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    reasons = []
    for event in events:
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason"):
            reasons.append(f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}")
        if event["PhysicalResourceId"] == event["StackId"] and event["ResourceStatus"].endswith(
            "_IN_PROGRESS"
        ):
            break  # start of the operation; older events belong to earlier operations
    return "; ".join(reasons[:_REASONS]) or "no reason given"


def poll_pauses() -> Iterator[float]:
    """Return the pause between polls: short at first, then longer."""
    for _ in range(20):
        yield _POLL_S
    while True:
        yield _SLOW_POLL_S
