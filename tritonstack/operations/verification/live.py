"""Read an endpoint's current state from AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack.operations.aws import Cloud
from tritonstack.operations.deploying.assembly import Template
from tritonstack.operations.deploying.deployed_templates import deployed_templates
from tritonstack.operations.stacks import StackState
from tritonstack.operations.verification.expectations import COMPONENT_MODEL, ExpectedEndpoint
from tritonstack.operations.verification.resolving import StackFacts

Described = Mapping[str, Any]

_AT_ONCE = 8
_ALARMS_A_CALL = 100
_SAGEMAKER = {"ServiceNamespace": "sagemaker"}
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class DeployedStack:
    """A CloudFormation stack."""

    state: StackState
    facts: StackFacts
    template: Template | None
    """None if it was never created."""


@dataclass(frozen=True)
class LiveEndpoint:
    """An endpoint and its resources; None or empty if missing."""

    described: Described | None = None
    config: Described | None = None
    """The active configuration."""
    models: Mapping[str, Described | None] = field(default_factory=dict)
    """The model of each variant or of the inference component."""
    component: Described | None = None
    targets: Mapping[str, Described] = field(default_factory=dict)
    policies: Mapping[tuple[str, str], Described] = field(default_factory=dict)
    schedules: Mapping[str, Sequence[Described]] = field(default_factory=dict)
    """Scheduled actions by scalable target."""
    alarms: Mapping[str, Described] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """The values of SSM parameters with model names."""


def deployed_stack(cloud: Cloud, name: str) -> DeployedStack | None:
    """Return a stack with its resolved references; None if it does not exist."""
    client = cloud.client("cloudformation")
    try:
        stack = client.describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    state = StackState(name, stack["StackStatus"], stack.get("StackStatusReason", ""))
    if not state.was_created:
        return DeployedStack(state, StackFacts(name, cloud.account, cloud.region), None)
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    facts = StackFacts(
        name=name,
        account=cloud.account,
        region=cloud.region,
        resources={
            item["LogicalResourceId"]: item["PhysicalResourceId"]
            for page in pages
            for item in page["StackResourceSummaries"]
            if item.get("PhysicalResourceId")
        },
        parameters={
            item["ParameterKey"]: item.get("ResolvedValue", item.get("ParameterValue", ""))
            for item in stack.get("Parameters", ())
        },
    )
    return DeployedStack(state, facts, deployed_templates(cloud, [state]).get(name))


def observe_endpoint(cloud: Cloud, expected: ExpectedEndpoint) -> LiveEndpoint:
    """Read everything that an expectation refers to."""
    sagemaker = cloud.client("sagemaker")
    described = _unless_gone(sagemaker.describe_endpoint, EndpointName=expected.name)
    config = None
    if described is not None:
        active = described["EndpointConfigName"]
        config = _unless_gone(sagemaker.describe_endpoint_config, EndpointConfigName=active)
    component = None
    if expected.component is not None:
        name = expected.component["InferenceComponentName"]
        component = _unless_gone(sagemaker.describe_inference_component, InferenceComponentName=name)
    scaling = _Scaling(cloud.client("application-autoscaling"), expected.scaled_ids)
    return LiveEndpoint(
        described=described,
        config=config,
        models=_models(sagemaker, config, component),
        component=component,
        targets=scaling.targets(),
        policies=scaling.policies(),
        schedules=scaling.schedules(),
        alarms=live_alarms(cloud, {*expected.alarms, *expected.rollback_alarms}),
        names=_values(cloud, expected.names),
    )


def _values(cloud: Cloud, parameters: Iterable[str]) -> dict[str, str]:
    """Return the values of the existing SSM parameters with these names."""
    client, values = cloud.client("ssm"), {}
    for name in parameters:
        try:
            values[name] = str(client.get_parameter(Name=name)["Parameter"]["Value"])
        except ClientError as error:
            if aws_error_code(error) != "ParameterNotFound":
                raise
    return values


def live_alarms(cloud: Cloud, names: Iterable[str]) -> dict[str, Described]:
    """Return the existing alarms with these names."""
    client, requested = cloud.client("cloudwatch"), sorted(names)
    alarms = {}
    for begin in range(0, len(requested), _ALARMS_A_CALL):
        some = requested[begin : begin + _ALARMS_A_CALL]
        answer = client.describe_alarms(AlarmNames=some, AlarmTypes=["MetricAlarm"], MaxRecords=len(some))
        alarms.update({alarm["AlarmName"]: alarm for alarm in answer["MetricAlarms"]})
    return alarms


def side_by_side(work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Map a function over items in parallel, in order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(work, items))


@dataclass(frozen=True)
class _Scaling:
    """Application Auto Scaling's state for some resource ids."""

    client: Any
    ids: Sequence[str]

    def targets(self) -> dict[str, Described]:
        """Return the scalable targets."""
        page = self.client.describe_scalable_targets(**_SAGEMAKER, ResourceIds=list(self.ids))
        return {target["ResourceId"]: target for target in page["ScalableTargets"]}

    def policies(self) -> dict[tuple[str, str], Described]:
        """Return the policies by resource id and name."""
        return {
            (resource_id, policy["PolicyName"]): policy
            for resource_id in self.ids
            for policy in self._all("describe_scaling_policies", "ScalingPolicies", resource_id)
        }

    def schedules(self) -> dict[str, Sequence[Described]]:
        """Return the scheduled actions by resource id."""
        return {
            resource_id: self._all("describe_scheduled_actions", "ScheduledActions", resource_id)
            for resource_id in self.ids
        }

    def _all(self, operation: str, member: str, resource_id: str) -> list[Described]:
        pages = self.client.get_paginator(operation).paginate(**_SAGEMAKER, ResourceId=resource_id)
        return [item for page in pages for item in page[member]]


def _models(
    sagemaker: Any, config: Described | None, component: Described | None
) -> dict[str, Described | None]:
    names = {
        variant["VariantName"]: variant["ModelName"]
        for listed in ("ProductionVariants", "ShadowProductionVariants")
        for variant in (config or {}).get(listed, ())
        if "ModelName" in variant
    }
    specification = (component or {}).get("Specification", {})
    if "ModelName" in specification:
        names[COMPONENT_MODEL] = specification["ModelName"]
    return {holder: _unless_gone(sagemaker.describe_model, ModelName=name) for holder, name in names.items()}


def _unless_gone(describe: Callable[..., Described], **name: str) -> Described | None:
    """Return a description; None if SageMaker reports that it does not exist (there is no error code for
    it)."""
    try:
        return describe(**name)
    except ClientError as error:
        if aws_error_code(error) == "ValidationException" and "could not find" in str(error).lower():
            return None
        raise
