"""What CloudFormation says of an environment's stacks, and waiting for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Assembly, Template
from tritonstack.operations.deploying.stored_templates import as_written
from tritonstack.reference.bootstrap import Bootstrap

_POLL_S = 0.5
_SLOW_POLL_S = 5.0
_TEMPLATES_AT_ONCE = 4
_REASONS = 3
_SETTLED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
_NEVER_STOOD = ("REVIEW_", "ROLLBACK_", "CREATE_FAILED", "DELETE_")


class StackFailedError(TritonstackError):
    """A stack ended in a state that nobody asked for."""


@dataclass(frozen=True)
class StackState:
    """One stack as CloudFormation describes it."""

    name: str
    status: str
    reason: str = ""
    protected: bool = False
    """CloudFormation refuses to delete it."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""

    @property
    def in_progress(self) -> bool:
        """CloudFormation is at work on it (a change set under review is waiting for a person)."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    @property
    def fault(self) -> str | None:
        """Why nobody can build on what it is now; None where it is at rest, and is what some deploy made."""
        if self.in_progress:
            return f"CloudFormation is still at work on it ({self.status})"
        if self.status in _SETTLED:
            return None
        return f"it is {self.status}{f': {self.reason}' if self.reason else ''}"

    @property
    def stands(self) -> bool:
        """It was created at some time, so that a deploy changes it; the CDK makes the others anew."""
        return not self.status.startswith(_NEVER_STOOD)


def list_stacks(cloud: Cloud, *, prefix: str) -> list[StackState]:
    """The stacks whose names begin with `prefix`."""
    pages = cloud.client("cloudformation").get_paginator("describe_stacks").paginate()
    return [
        _state(stack) for page in pages for stack in page["Stacks"] if stack["StackName"].startswith(prefix)
    ]


def _state(stack: Mapping[str, Any]) -> StackState:
    return StackState(
        stack["StackName"],
        stack["StackStatus"],
        stack.get("StackStatusReason", ""),
        stack.get("EnableTerminationProtection", False),
        {tag["Key"]: tag["Value"] for tag in stack.get("Tags", ())},
        stack.get("Description", ""),
    )


def environment_stacks(cloud: Cloud, base: str) -> list[StackState]:
    """The stacks of one environment, and none of another whose name merely begins with the same letters."""
    stacks = list_stacks(cloud, prefix=f"{base}-")
    return [stack for stack in stacks if naming.base_of_stack(stack.name) == base]


def deployed_templates(
    cloud: Cloud, stacks: Iterable[StackState], *, wanted: Assembly | None = None
) -> dict[str, Template]:
    """The templates of those stacks that stand, by their names: as they were written, where `wanted` is next.

    Without it they are as CloudFormation has stored them.
    """
    client = cloud.client("cloudformation")

    def fetch(name: str) -> Template:
        body: Any = client.get_template(StackName=name, TemplateStage="Original")["TemplateBody"]
        stored: Template = json.loads(body) if isinstance(body, str) else body
        if wanted is None or name not in wanted.stacks:
            return stored
        written: Template = as_written(stored, wanted.template(name))
        return written

    names = [stack.name for stack in stacks if stack.stands]
    with ThreadPoolExecutor(_TEMPLATES_AT_ONCE) as pool:
        return dict(zip(names, pool.map(fetch, names), strict=True))


def describe_stack(cloud: Cloud, name: str) -> StackState | None:
    """One stack, or None if there is none of that name."""
    try:
        stack = cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return _state(stack)


def is_bootstrapped(cloud: Cloud, bootstrap: Bootstrap) -> bool:
    """Whether `cdk bootstrap` has prepared the account and region under a qualifier."""
    ssm = cloud.client("ssm")
    try:
        ssm.get_parameter(Name=bootstrap.version_parameter)
    except ssm.exceptions.ParameterNotFound:
        return False
    return True


def wait_until_settled(
    cloud: Cloud, names: Iterable[str], *, on_change: Callable[[StackState], None]
) -> None:
    """Wait until CloudFormation is no longer at work on any of the stacks."""
    for name in names:
        seen = ""
        for pause in poll_pauses():
            state = describe_stack(cloud, name)
            if state is None or not state.in_progress:
                break
            if state.status != seen:
                seen = state.status
                on_change(state)
            time.sleep(pause)


def failures(cloud: Cloud, name: str) -> str:
    """Why the latest operation on a stack failed, in CloudFormation's words."""
    events = cloud.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
    reasons = []
    for event in events:
        if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason"):
            reasons.append(f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}")
        if event["PhysicalResourceId"] == event["StackId"] and event["ResourceStatus"].endswith(
            "_IN_PROGRESS"
        ):
            break  # the operation's beginning; what is older belongs to another one
    return "; ".join(reasons[:_REASONS]) or "no reason given"


def poll_pauses() -> Iterator[float]:
    """How long to wait between looks: quick at first, for what is quick; then gently with the API."""
    for _ in range(20):
        yield _POLL_S
    while True:
        yield _SLOW_POLL_S
