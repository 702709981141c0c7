"""Check that endpoints run what was deployed: after a rollback, an endpoint is InService but outdated."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tritonstack.base.errors import TritonstackError
from tritonstack.operate.shared.aws import Cloud, explain_denied, if_present
from tritonstack.operate.shared.stacks import stack_resources

_UNDER_WAY = ("Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting")
SERVING = ("InService", "SystemUpdating")
"""SageMaker's own maintenance changes no user settings."""
_POLL_S = 2.0


class RolledBackError(TritonstackError):
    """The new version was deployed, but an alarm or a failed health check rolled it back. The previous
    version serves. Read the alarms and the log, fix the cause, and deploy again.
    """

    code = "TS507"
    title = "Deployment was rolled back"


@dataclass(frozen=True)
class EndpointState:
    """An endpoint or inference component, what its stack deployed to it, and its status."""

    name: str
    deployed: str
    active: str
    status: str
    reason: str = ""
    runs: Literal["configuration", "model"] = "configuration"

    @property
    def is_outdated(self) -> bool:
        """True if it serves something else than its stack deployed. ARNs contain names in lower case."""
        return self.status in SERVING and self.active.lower() != self.deployed.lower()

    @property
    def failure(self) -> str | None:
        """Return the failure, or None."""
        reason = f": {self.reason}" if self.reason else ""
        if self.status not in SERVING:
            return f"{self.name} is {self.status}{reason}"
        if self.is_outdated:
            return f"{self.name} was rolled back to its {self.runs} {self.active}{reason}"
        return None


def require_running(cloud: Cloud, stacks: Iterable[str]) -> None:
    """Raise RolledBackError unless these stacks' endpoints and components run what the stacks deployed."""
    failures = [
        failure for stack in stacks for state in endpoint_states(cloud, stack) if (failure := state.failure)
    ]
    if failures:
        raise RolledBackError(
            "deployed, but rolled back: " + "; ".join(failures),
            remedy=(
                "it runs what it ran before; see its alarms and its log (`tritonstack "
                "logs`), fix the cause, and deploy again"
            ),
        )


def wait_until_served(cloud: Cloud, names: Iterable[str], *, on_change: Callable[[str, str], None]) -> None:
    """Wait until no update of these endpoints is in progress; skip missing endpoints."""
    for name in names:
        reported = ""
        while (status := describe_endpoint(cloud, name).get("EndpointStatus")) in _UNDER_WAY:
            if status != reported:
                reported = status
                on_change(name, status)
            time.sleep(_POLL_S)


def endpoint_states(cloud: Cloud, stack: str) -> list[EndpointState]:
    """Return the endpoint of a stack and its inference component, with what that stack deployed to them."""
    sagemaker, names = cloud.client("sagemaker"), _names(cloud, stack)
    configs, endpoints = names["AWS::SageMaker::EndpointConfig"], names["AWS::SageMaker::Endpoint"]
    states = [
        _endpoint_state(sagemaker.describe_endpoint(EndpointName=endpoint), config)
        for endpoint, config in zip(endpoints, configs, strict=True)
    ]
    if components := names["AWS::SageMaker::InferenceComponent"]:
        # An endpoint with a component has one variant, and so one model.
        for component, model in zip(components, names["AWS::SageMaker::Model"], strict=True):
            component_state = sagemaker.describe_inference_component(InferenceComponentName=component)
            states.append(_component_state(component_state, model))
    return states


def _names(cloud: Cloud, stack: str) -> Mapping[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for resource in stack_resources(cloud, stack):
        if resource["ResourceStatus"].startswith("DELETE_"):
            continue  # retained, or being deleted
        names[resource["ResourceType"]].append(_last(resource["PhysicalResourceId"]))
    return names


def _endpoint_state(endpoint: Mapping[str, Any], deployed: str) -> EndpointState:
    active, reason = endpoint["EndpointConfigName"], endpoint.get("FailureReason", "")
    return EndpointState(endpoint["EndpointName"], deployed, active, endpoint["EndpointStatus"], reason)


def _component_state(component: Mapping[str, Any], deployed: str) -> EndpointState:
    active, reason = component["Specification"]["ModelName"], component.get("FailureReason", "")
    name, status = component["InferenceComponentName"], component["InferenceComponentStatus"]
    if status == "Updating":  # its rollout has ended: scaling changes the number of copies
        status = "InService"
    return EndpointState(name, deployed, active, status, reason, runs="model")


def describe_endpoint(cloud: Cloud, name: str) -> Mapping[str, Any]:
    """Return SageMaker's description of an endpoint; empty if it does not exist."""
    return if_present(cloud.client("sagemaker").describe_endpoint, EndpointName=name) or {}


def endpoint_condition(cloud: Cloud, name: str) -> str | None:
    """Return an endpoint's status, with the reason of a failure; None if it does not exist."""
    with explain_denied("sagemaker"):
        endpoint = describe_endpoint(cloud, name)
    reason = f": {endpoint['FailureReason']}" if endpoint.get("FailureReason") else ""
    return f"{endpoint['EndpointStatus']}{reason}" if endpoint else None


def _last(arn: str) -> str:
    """Return the resource name from an ARN, which CloudFormation uses as physical id."""
    return arn.rpartition("/")[2]
