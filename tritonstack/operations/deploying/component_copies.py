"""Keep the running copies of inference components: CloudFormation sets a number with each update."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Template
from tritonstack.operations.deploying.changes import Changes
from tritonstack.operations.deploying.endpoint_template import EndpointTemplate, Properties, parameter_of
from tritonstack.spec.endpoints.endpoint import Components, ServingOptions
from tritonstack.spec.endpoints.rollouts import Rolling
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack.spec.environments.environment import EnvironmentSpec


def copy_parameters(cloud: Cloud, spec: EnvironmentSpec, changes: Changes) -> list[str]:
    """Return the CDK's arguments that keep the copies of each component that the deployment updates.

    An unchanged component gets none: another number would be an update, too. The CDK then keeps the numbers
    of the last deployment.
    """
    planned = {plan.stack for plan in changes.plans}
    return [
        argument
        for name, endpoint in spec.endpoints.items()
        if (stack := naming.endpoint_stack_name(spec.base, name)) in planned
        for argument in _arguments(cloud, stack, endpoint, changes)
    ]


def _arguments(cloud: Cloud, stack: str, endpoint: ServingOptions, changes: Changes) -> Iterator[str]:
    deployed, new = changes.deployed.get(stack), changes.assembly.template(stack)
    component = EndpointTemplate(new).component
    if not endpoint.components or not deployed or not component or _part(deployed) == _part(new):
        return
    running = _running_copies(cloud, component["InferenceComponentName"])
    if running is None:
        return
    copies = _kept_copies(endpoint.components, endpoint.scaling, running)
    yield from _argument(stack, component["RuntimeConfig"]["CopyCount"], copies)
    rollout = endpoint.planned_rollout
    if isinstance(rollout, Rolling):
        policy = component["DeploymentConfig"]["RollingUpdatePolicy"]
        yield from _argument(stack, policy["MaximumBatchSize"]["Value"], rollout.batch_copies(copies))


def _kept_copies(components: Components, scaling: Scaling, running: int) -> int:
    """Return the number of copies after an update: those that run, within all limits that may be in force.

    At least one, even if none runs: an update must prove that the model starts.
    """
    schedules = scaling.schedules.values()
    least = min([components.min_copies, *(schedule.min for schedule in schedules)])
    most = max([components.max_copies, *(schedule.max for schedule in schedules)])
    return max(1, least, min(running, most))


def _part(template: Template) -> list[Any]:
    """Return what CloudFormation updates a component for: its properties, its model, and its parameters."""
    side = EndpointTemplate(template)
    component: Properties = side.component or {}
    return [component, side.model(component), *_declared(component, template)]


def _declared(value: Any, template: Template) -> Iterator[Properties]:
    if parameter := parameter_of(value, template):
        yield parameter
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _declared(inner, template)


def _running_copies(cloud: Cloud, name: str) -> int | None:
    try:
        found = cloud.client("sagemaker").describe_inference_component(InferenceComponentName=name)
    except ClientError as error:
        if "could not find" in str(error).lower():  # SageMaker has no error code for it
            return None
        raise
    copies: int = found["RuntimeConfig"]["DesiredCopyCount"]
    return copies


def _argument(stack: str, value: Any, number: int) -> Iterator[str]:
    yield from ("--parameters", f"{stack}:{value['Ref']}={number}")
