"""What a template requests of an endpoint, with its stack's references resolved. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tritonstack.operate.synth.assembly import (
    COMPONENT,
    CONFIG,
    ENDPOINT,
    MODEL,
    TARGET,
    EndpointTemplate,
    Properties,
    Template,
    references,
)

# Values come from physical ids, parameters, and names; others are UNKNOWN and skipped in comparisons.


class Unknown:
    """A value that only CloudFormation knows."""

    def __repr__(self) -> str:
        return "(unknown)"


UNKNOWN: Final = Unknown()
_REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")


@dataclass(frozen=True)
class StackFacts:
    """The values that a template's references resolve to."""

    name: str
    account: str
    region: str
    resources: Mapping[str, str] = field(default_factory=dict)
    """Physical ids by logical id."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameter values; SSM parameters are already resolved."""

    @property
    def partition(self) -> str:
        """The partition of the region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    def pseudo(self, name: str) -> Any:
        """Return a pseudo parameter."""
        return {
            "AWS::AccountId": self.account,
            "AWS::Region": self.region,
            "AWS::StackName": self.name,
            "AWS::Partition": self.partition,
            "AWS::URLSuffix": "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com",
        }.get(name, UNKNOWN)


@dataclass(frozen=True)
class Resolver:
    """Resolves the values of one template for one stack."""

    template: Template
    facts: StackFacts

    def value(self, value: Any) -> Any:
        """Return a value without references; UNKNOWN where it cannot be resolved."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._call(name, argument)
        return {key: self.value(item) for key, item in value.items() if item != {"Ref": "AWS::NoValue"}}

    def _call(self, name: str, argument: Any) -> Any:
        functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._reference,
            "Fn::GetAtt": self._attribute,
            "Fn::Join": self._join,
            "Fn::Split": self._split,
            "Fn::Select": self._select,
            "Fn::Sub": self._substitute,
        }
        return functions[name](argument) if name in functions else UNKNOWN

    def _reference(self, name: str) -> Any:
        if name.startswith("AWS::"):
            return self.facts.pseudo(name)
        declared = self.template.get("Parameters", {}).get(name)
        if declared is None:
            return self.facts.resources.get(name, UNKNOWN)
        value = self.facts.parameters.get(name, UNKNOWN)
        if isinstance(value, str) and "List<" in declared["Type"]:
            return value.split(",")
        return value

    def _attribute(self, argument: Any) -> Any:
        logical_id, _, attribute = (
            argument.partition(".") if isinstance(argument, str) else (argument[0], "", argument[1])
        )
        resource = self.template["Resources"].get(logical_id)
        physical = self.facts.resources.get(logical_id)
        if resource is None or physical is None:
            return UNKNOWN
        kind = resource["Type"]
        if (kind, attribute) in _NAMES_AT_THE_END:
            return physical.rpartition("/")[2]
        if (kind, attribute) == ("AWS::SNS::Topic", "TopicArn"):
            return physical
        if (kind, attribute) == ("AWS::IAM::Role", "Arn") and "Path" not in resource.get("Properties", {}):
            return f"arn:{self.facts.partition}:iam::{self.facts.account}:role/{physical}"
        return UNKNOWN

    def _join(self, argument: Any) -> Any:
        separator, parts = argument[0], self.value(argument[1])
        if not isinstance(parts, list) or any(isinstance(part, Unknown) for part in parts):
            return UNKNOWN
        return separator.join(str(part) for part in parts)

    def _split(self, argument: Any) -> Any:
        text = self.value(argument[1])
        return text.split(argument[0]) if isinstance(text, str) else UNKNOWN

    def _select(self, argument: Any) -> Any:
        items = self.value(argument[1])
        return items[int(argument[0])] if isinstance(items, list) else UNKNOWN

    def _substitute(self, argument: Any) -> Any:
        text, variables = (
            (argument, {}) if isinstance(argument, str) else (argument[0], self.value(argument[1]))
        )

        def lookup(name: str) -> Any:
            if name in variables:
                return variables[name]
            return self._attribute(name) if "." in name else self._reference(name)

        values = {name: lookup(name) for name in _REFERENCE.findall(text)}
        if any(isinstance(value, Unknown) for value in values.values()):
            return UNKNOWN
        filled = _REFERENCE.sub(lambda match: str(values[match[1]]), text)
        return filled.replace("${!", "${")


_NAMES_AT_THE_END = frozenset(
    {
        (MODEL, "ModelName"),
        (CONFIG, "EndpointConfigName"),
        (ENDPOINT, "EndpointName"),
        (COMPONENT, "InferenceComponentName"),
    }
)
"""Attributes that are the last part of an ARN, which is the physical id."""


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
