"""Check that endpoints run what was deployed: after a rollback, an endpoint is InService but outdated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, explain_denied

_UNDER_WAY = ("Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting")
SERVING = ("InService", "SystemUpdating")
"""SageMaker's own maintenance changes no user settings."""
_POLL_S = 2.0


class RolledBackError(TritonstackError):
    """Endpoints do not run what was deployed."""

    code = "TS507"


@dataclass(frozen=True)
class EndpointState:
    """An endpoint, the configuration of its stack, and its status."""

    name: str
    deployed_config: str
    active_config: str
    status: str
    reason: str = ""

    @property
    def failure(self) -> str | None:
        """Return the failure, or None."""
        reason = f": {self.reason}" if self.reason else ""
        if self.status not in SERVING:
            return f"{self.name} is {self.status}{reason}"
        # ARNs contain resource names in lower case.
        if self.active_config.lower() != self.deployed_config.lower():
            return f"{self.name} was rolled back to its configuration {self.active_config}{reason}"
        return None


def require_running(cloud: Cloud, stacks: Iterable[str]) -> None:
    """Raise RolledBackError unless these stacks' endpoints use the stacks' configurations."""
    failures = [
        failure for stack in stacks for state in endpoint_states(cloud, stack) if (failure := state.failure)
    ]
    if failures:
        raise RolledBackError(
            "deployed, but rolled back: " + "; ".join(failures),
            remedy=(
                "the endpoint runs its previous configuration; see its alarms and its log (`tritonstack "
                "logs`), fix the cause, and deploy again"
            ),
        )


def wait_until_served(cloud: Cloud, names: Iterable[str], *, on_change: Callable[[str, str], None]) -> None:
    """Wait until no update of these endpoints is in progress; skip missing endpoints."""
    sagemaker = cloud.client("sagemaker")
    for name in names:
        seen = ""
        while (status := _status(sagemaker, name)) in _UNDER_WAY:
            if status != seen:
                seen = status
                on_change(name, status)
            time.sleep(_POLL_S)


def endpoint_states(cloud: Cloud, stack: str) -> list[EndpointState]:
    """Return the endpoints of a stack with the configurations of that stack."""
    resources = _resources(cloud, stack)
    configs = [physical for kind, physical in resources if kind == "AWS::SageMaker::EndpointConfig"]
    endpoints = [physical for kind, physical in resources if kind == "AWS::SageMaker::Endpoint"]
    return [
        _state(cloud, _last(endpoint), _last(config))
        for endpoint, config in zip(endpoints, configs, strict=True)
    ]


def _resources(cloud: Cloud, stack: str) -> list[tuple[str, str]]:
    pages = cloud.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    return [
        (resource["ResourceType"], resource["PhysicalResourceId"])
        for page in pages
        for resource in page["StackResourceSummaries"]
    ]


def _state(cloud: Cloud, name: str, deployed: str) -> EndpointState:
    found: dict[str, Any] = cloud.client("sagemaker").describe_endpoint(EndpointName=name)
    return EndpointState(
        name=name,
        deployed_config=deployed,
        active_config=found["EndpointConfigName"],
        status=found["EndpointStatus"],
        reason=found.get("FailureReason", ""),
    )


def endpoint_condition(cloud: Cloud, name: str) -> str | None:
    """Return an endpoint's status, with the reason of a failure; None if it does not exist."""
    with explain_denied("sagemaker"):
        found = _describe(cloud.client("sagemaker"), name)
    reason = f": {found['FailureReason']}" if found.get("FailureReason") else ""
    return f"{found['EndpointStatus']}{reason}" if found else None


def _status(sagemaker: Any, name: str) -> str:
    return str(_describe(sagemaker, name).get("EndpointStatus", ""))


def _describe(sagemaker: Any, name: str) -> dict[str, Any]:
    """Return SageMaker's description of an endpoint; empty if it does not exist."""
    try:
        found: dict[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
    except ClientError as error:
        if "could not find" in str(error).lower():
            return {}
        raise
    return found


def _last(arn: str) -> str:
    """Return the resource name from an ARN, which CloudFormation uses as physical id."""
    return arn.rpartition("/")[2]
