"""What a template requests of an endpoint, with its stack's references resolved. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.operate.synth.assembly import Template
from tritonstack.operate.synth.endpoint_template import (
    COMPONENT,
    CONFIG,
    ENDPOINT,
    MODEL,
    TARGET,
    EndpointTemplate,
    Properties,
    references,
)
from tritonstack.operate.verify.resolving import Resolver, StackFacts

POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM = "AWS::CloudWatch::Alarm"
PARAMETER = "AWS::SSM::Parameter"
_COMPARED = frozenset({ENDPOINT, CONFIG, MODEL, COMPONENT, TARGET, POLICY, ALARM, PARAMETER})

COMPONENT_MODEL = "inference component"
"""The key for the model of an inference component, which no variant names."""


@dataclass(frozen=True)
class ExpectedEndpoint:
    """An endpoint according to its template; UNKNOWN marks values that only CloudFormation knows."""

    name: str
    """The name for InvokeEndpoint."""
    properties: Properties
    config: Properties
    variants: Mapping[str, Properties]
    """Properties of each variant, shadows included."""
    shadows: frozenset[str]
    models: Mapping[str, Properties]
    """The model of each variant or of the inference component."""
    component: Properties | None
    targets: Mapping[str, Properties]
    """Scalable targets by resource id in Application Auto Scaling."""
    policies: Mapping[tuple[str, str], Properties]
    """By resource id and name."""
    alarms: Mapping[str, Properties]
    names: Mapping[str, str]
    """The values of the SSM parameters with model names."""
    not_compared: Mapping[str, int]
    """Number of resources per type that are checked by template only."""

    @property
    def rollout(self) -> Properties:
        """Return the rollout strategy."""
        holder = self.component if self.component is not None else self.properties
        rollout: Properties = holder.get("DeploymentConfig", {})
        return rollout

    @property
    def rollback_alarms(self) -> list[str]:
        """Return the names of the rollback alarms."""
        alarms = self.rollout.get("AutoRollbackConfiguration", {}).get("Alarms", ())
        return [str(item["AlarmName"]) for item in alarms]

    @property
    def scaled_ids(self) -> list[str]:
        """Return the resource ids of everything that could scale."""
        ids = [f"endpoint/{self.name}/variant/{variant}" for variant in self.variants]
        if self.component is not None:
            ids.append(f"inference-component/{self.component['InferenceComponentName']}")
        return ids


def expected_endpoint(template: Template, facts: StackFacts) -> ExpectedEndpoint | None:
    """Return what the template of an endpoint's stack requests; None if it has no endpoint."""
    side = EndpointTemplate(template)
    if side.endpoint is None:
        return None
    resolver = Resolver(template, facts)
    models = {name: side.model(variant) for name, variant in side.variants.items() if "ModelName" in variant}
    if side.component is not None:
        models[COMPONENT_MODEL] = side.model(side.component)
    targets = {name: resolver.value(item["Properties"]) for name, item in _of_type(template, TARGET).items()}
    config = resolver.value(side.config)
    return ExpectedEndpoint(
        name=str(side.endpoint["EndpointName"]),
        properties=resolver.value(side.endpoint),
        config=config,
        variants={name: resolver.value(variant) for name, variant in side.variants.items()},
        shadows=frozenset(item["VariantName"] for item in config.get("ShadowProductionVariants", ())),
        models={name: resolver.value(model) for name, model in models.items()},
        component=None if side.component is None else resolver.value(side.component),
        targets={str(target["ResourceId"]): target for target in targets.values()},
        policies=dict(_policies(template, resolver, targets)),
        alarms={
            str(item["Properties"]["AlarmName"]): resolver.value(item["Properties"])
            for item in _of_type(template, ALARM).values()
        },
        names={
            str(item["Properties"]["Name"]): str(item["Properties"]["Value"])
            for item in _of_type(template, PARAMETER).values()
        },
        not_compared=Counter(
            item["Type"] for item in template["Resources"].values() if item["Type"] not in _COMPARED
        ),
    )


def _policies(
    template: Template, resolver: Resolver, targets: Mapping[str, Properties]
) -> list[tuple[tuple[str, str], Properties]]:
    policies = []
    for item in _of_type(template, POLICY).values():
        properties = item["Properties"]
        referred = next(references(properties.get("ScalingTargetId")), "")
        holder = targets.get(referred, properties)
        key = (str(holder["ResourceId"]), str(properties["PolicyName"]))
        policies.append((key, resolver.value(properties)))
    return policies


def _of_type(template: Template, kind: str) -> dict[str, Any]:
    return {name: item for name, item in template["Resources"].items() if item["Type"] == kind}
