"""Switch endpoints and inference components to configurations and models that exist, without CloudFormation.

`rollback --now` switches to what CloudFormation has retained, and `deploy` to what the stack has deployed if
SageMaker rolled it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonstack.base.error_kinds import NotDeployedError
from tritonstack.operate.destroy.retained import serving_resources
from tritonstack.operate.shared.aws import Cloud, explain_denied
from tritonstack.operate.shared.running import SERVING, EndpointState, wait_until_served
from tritonstack.operate.shared.stacks import describe_stack
from tritonstack.operate.synth.assembly import EndpointTemplate, Template, parameter_of

_POLL_S = 2.0
_UPDATE_PARTS = ("DeploymentConfig", "RetainAllVariantProperties", "ExcludeRetainedVariantProperties")


@dataclass(frozen=True)
class Switch:
    """The change of one endpoint or inference component."""

    endpoint: str
    target: str
    """The configuration, or the model of the component."""
    component: str | None = None
    done: bool = False
    """Whether it already runs that."""
    update: Mapping[str, Any] = field(default_factory=dict)
    """How to update: the other parameters of SageMaker's update."""


def to_deployed(cloud: Cloud, stack: str, template: Template, state: EndpointState) -> Switch:
    """Return the switch to what a stack deployed, with the stack's own rollout and alarms."""
    names = {item.key: item.name for item in serving_resources(cloud, lambda owner: owner == stack)}
    target = names.get(state.deployed.lower(), state.deployed)  # an ARN has no upper-case letters
    described = describe_stack(cloud, stack)
    if described is None:  # the template's defaults are not what was deployed
        raise NotDeployedError(f"stack {stack} no longer exists", remedy="deploy the environment again")
    values = described.parameters
    parts = EndpointTemplate(template)
    if state.runs == "configuration":
        endpoint = parts.endpoint or {}
        update = {part: endpoint[part] for part in _UPDATE_PARTS if part in endpoint}
        return Switch(state.name, target, update=_resolved(update, template, values))
    component = parts.component or {}
    update = {part: component[part] for part in ("Specification", "DeploymentConfig") if part in component}
    update["Specification"] = {**update["Specification"], "ModelName": target}
    return Switch(state.name, target, state.name, update=_resolved(update, template, values))


def _resolved(value: Any, template: Template, values: Mapping[str, str]) -> Any:
    """Return a value of a template with the values of its parameters."""
    if parameter := parameter_of(value, template):
        text = values.get(value["Ref"], parameter.get("Default"))
        return int(str(text)) if parameter["Type"] == "Number" else text
    if isinstance(value, Mapping):
        return {key: _resolved(inner, template, values) for key, inner in value.items()}
    return [_resolved(inner, template, values) for inner in value] if isinstance(value, list) else value


def switch(cloud: Cloud, planned: Switch, *, on_change: Callable[[str], None]) -> str | None:
    """Make a planned change; return why it does not serve in the end, or None if it does."""
    sagemaker = cloud.client("sagemaker")
    with explain_denied("sagemaker"):
        if planned.component is not None:
            return _switch_component(sagemaker, planned, planned.component, on_change)
        if not planned.done:
            # SageMaker rejects an update during its own maintenance.
            wait_until_served(cloud, [planned.endpoint], on_change=lambda _, status: on_change(status))
            sagemaker.update_endpoint(
                EndpointName=planned.endpoint, EndpointConfigName=planned.target, **planned.update
            )
        wait_until_served(cloud, [planned.endpoint], on_change=lambda _, status: on_change(status))
        endpoint = sagemaker.describe_endpoint(EndpointName=planned.endpoint)
    serves = endpoint["EndpointConfigName"].lower() == planned.target.lower()
    if serves and endpoint["EndpointStatus"] in SERVING:
        return None
    return str(endpoint.get("FailureReason") or endpoint["EndpointStatus"])


def _switch_component(
    sagemaker: Any, planned: Switch, component: str, on_change: Callable[[str], None]
) -> str | None:
    if not planned.done:
        sagemaker.update_inference_component(InferenceComponentName=component, **planned.update)
    while True:
        description = sagemaker.describe_inference_component(InferenceComponentName=component)
        status = description["InferenceComponentStatus"]
        if status not in ("Creating", "Updating"):
            break
        on_change(status)
        time.sleep(_POLL_S)
    if description["Specification"]["ModelName"] == planned.target and status == "InService":
        return None
    return str(description.get("FailureReason") or status)
