"""Whether endpoints run what was deployed: one that SageMaker took back is in service and looks well."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud

_UNDER_WAY = ("Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting")
SERVING = ("InService", "SystemUpdating")
"""SageMaker's own maintenance changes nothing that a person asked for."""
_POLL_S = 2.0


class RolledBackError(TritonstackError):
    """Endpoints run something else than what was deployed."""


@dataclass(frozen=True)
class EndpointState:
    """The configuration that an endpoint's stack made, and what SageMaker says of the endpoint."""

    name: str
    deployed_config: str
    active_config: str
    status: str
    reason: str = ""

    @property
    def fault(self) -> str | None:
        """What is wrong, or None."""
        why = f": {self.reason}" if self.reason else ""
        if self.status not in SERVING:
            return f"{self.name} is {self.status}{why}"
        # In an ARN, which the name of what was deployed is read from, names stand in lower case.
        if self.active_config.lower() != self.deployed_config.lower():
            return f"{self.name} went back to its configuration {self.active_config}{why}"
        return None


def require_running(cloud: Cloud, stacks: Iterable[str]) -> None:
    """Raise RolledBackError unless the endpoints of these stacks run the configurations made for them."""
    faults = [fault for stack in stacks for state in endpoint_states(cloud, stack) if (fault := state.fault)]
    if faults:
        raise RolledBackError(
            "deployed, but not what runs: " + "; ".join(faults),
            remedy="the endpoint answers as before; its alarms and its log in CloudWatch say what was wrong "
            "with the update. Mend that and deploy again",
        )


def wait_until_served(cloud: Cloud, names: Iterable[str], *, on_change: Callable[[str, str], None]) -> None:
    """Wait until no update of these endpoints is going on; those that do not exist are not waited for."""
    sagemaker = cloud.client("sagemaker")
    for name in names:
        seen = ""
        while (status := _status(sagemaker, name)) in _UNDER_WAY:
            if status != seen:
                seen = status
                on_change(name, status)
            time.sleep(_POLL_S)


def endpoint_states(cloud: Cloud, stack: str) -> list[EndpointState]:
    """The endpoints of a stack, each beside the configuration that the same stack made."""
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


def _status(sagemaker: Any, name: str) -> str:
    try:
        return str(sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"])
    except ClientError as error:
        if "could not find" in str(error).lower():
            return ""
        raise


def _last(arn: str) -> str:
    """The name at the end of an ARN, which is what CloudFormation knows these resources by."""
    return arn.rpartition("/")[2]
