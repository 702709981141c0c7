"""Read an endpoint's current state from AWS."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tritonstack.operate.shared.aws import Cloud, if_present, pages
from tritonstack.operate.shared.stacks import StackState, describe_stack, stack_resources
from tritonstack.operate.synth.assembly import Template, deployed_templates
from tritonstack.operate.verify.expectations import COMPONENT_MODEL, ExpectedEndpoint, StackFacts

Described = Mapping[str, Any]
_ALARMS_A_CALL = 100
_SAGEMAKER = {"ServiceNamespace": "sagemaker"}


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
    state = describe_stack(cloud, name)
    if state is None:
        return None
    if not state.was_created:
        return DeployedStack(state, StackFacts(name, cloud.account, cloud.region), None)
    resources = {
        item["LogicalResourceId"]: item["PhysicalResourceId"]
        for item in stack_resources(cloud, name)
        if item.get("PhysicalResourceId")
    }
    facts = StackFacts(name, cloud.account, cloud.region, resources, state.parameters)
    return DeployedStack(state, facts, deployed_templates(cloud, [state]).get(name))


def observe_endpoint(cloud: Cloud, expected: ExpectedEndpoint) -> LiveEndpoint:
    """Read everything that an expectation refers to."""
    sagemaker = cloud.client("sagemaker")
    described = if_present(sagemaker.describe_endpoint, EndpointName=expected.name)
    config = None
    if described is not None:
        active = described["EndpointConfigName"]
        config = if_present(sagemaker.describe_endpoint_config, EndpointConfigName=active)
    component = None
    if expected.component is not None:
        name = expected.component["InferenceComponentName"]
        component = if_present(sagemaker.describe_inference_component, InferenceComponentName=name)
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
    read = cloud.client("ssm").get_parameter
    answers = {name: if_present(read, Name=name) for name in parameters}
    return {name: str(answer["Parameter"]["Value"]) for name, answer in answers.items() if answer}


def live_alarms(cloud: Cloud, names: Iterable[str]) -> dict[str, Described]:
    """Return the existing alarms with these names."""
    client, requested = cloud.client("cloudwatch"), sorted(names)
    alarms = {}
    for begin in range(0, len(requested), _ALARMS_A_CALL):
        some = requested[begin : begin + _ALARMS_A_CALL]
        answer = client.describe_alarms(AlarmNames=some, AlarmTypes=["MetricAlarm"], MaxRecords=len(some))
        alarms.update({alarm["AlarmName"]: alarm for alarm in answer["MetricAlarms"]})
    return alarms


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
        return list(pages(self.client, operation, member, **_SAGEMAKER, ResourceId=resource_id))


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
    return {holder: if_present(sagemaker.describe_model, ModelName=name) for holder, name in names.items()}
