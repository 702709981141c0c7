"""Read an endpoint from a CloudFormation template: configuration, variants, and scaling."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.operate.synth.assembly import Template

Properties = Mapping[str, Any]

ENDPOINT = "AWS::SageMaker::Endpoint"
CONFIG = "AWS::SageMaker::EndpointConfig"
MODEL = "AWS::SageMaker::Model"
COMPONENT = "AWS::SageMaker::InferenceComponent"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"

_VARIANTS = ("ProductionVariants", "ShadowProductionVariants")
_VARIANT_COUNT = "sagemaker:variant:DesiredInstanceCount"
_VARIANT = re.compile(r"variant/([A-Za-z0-9-]+)")


@dataclass(frozen=True)
class EndpointTemplate:
    """The endpoint of a stack."""

    template: Template

    @property
    def endpoint(self) -> Properties | None:
        """Return the endpoint's properties; None if there is no endpoint."""
        return next((item["Properties"] for item in self._of_type(ENDPOINT).values()), None)

    @property
    def component(self) -> Properties | None:
        """Return the properties of its inference component, if any."""
        return next((item["Properties"] for item in self._of_type(COMPONENT).values()), None)

    @property
    def config(self) -> Properties:
        """Return the properties of its configuration."""
        return next((item["Properties"] for item in self._of_type(CONFIG).values()), {})

    @property
    def variants(self) -> Mapping[str, Properties]:
        """Return the properties of each variant, shadow included."""
        listed = [variant for key in _VARIANTS for variant in self.config.get(key, ())]
        return {variant["VariantName"]: variant for variant in listed}

    @property
    def targets(self) -> Mapping[str, str]:
        """Return the logical ids of scaling resources, with their variants."""
        variants = {}
        for logical_id, item in self._of_type(TARGET).items():
            properties = item["Properties"]
            named = _VARIANT.search(json.dumps(properties["ResourceId"]))
            if properties["ScalableDimension"] == _VARIANT_COUNT and named:
                variants[logical_id] = named[1]
        return variants

    @property
    def scheduled(self) -> Mapping[str, Properties]:
        """Return the properties of the scaling resources with scheduled actions, by logical id."""
        targets = {name: item["Properties"] for name, item in self._of_type(TARGET).items()}
        return {name: target for name, target in targets.items() if target.get("ScheduledActions")}

    def model(self, holder: Properties) -> Properties:
        """Return the properties of the model that a variant or component refers to."""
        resources = self.template.get("Resources", {})
        referred = (resources[name] for name in references(holder) if name in resources)
        return next((item["Properties"] for item in referred if item["Type"] == MODEL), {})

    def _of_type(self, kind: str) -> dict[str, Any]:
        resources = self.template.get("Resources", {})
        return {name: item for name, item in resources.items() if item["Type"] == kind}


def with_instance_types(template: Template, types: Mapping[str, str | None]) -> Template:
    """Return a template whose variants have these instance types, as far as they are named."""

    def variant(properties: Properties) -> Properties:
        name, old = properties["VariantName"], properties.get("InstanceType")
        return {**properties, "InstanceType": types.get(name) or old} if old else properties

    resources = {
        name: {
            **item,
            "Properties": {
                key: [variant(properties) for properties in value] if key in _VARIANTS else value
                for key, value in item["Properties"].items()
            },
        }
        if item["Type"] == CONFIG
        else item
        for name, item in template["Resources"].items()
    }
    return {**template, "Resources": resources}


def parameter_of(value: Any, template: Template) -> Properties | None:
    """Return the declaration of the parameter that a value is; None for other values."""
    name = value.get("Ref") if isinstance(value, Mapping) else None
    parameter: Properties | None = template.get("Parameters", {}).get(name)
    return parameter


def references(value: Any) -> Iterator[str]:
    """Return the logical ids that a value refers to, by Ref, Fn::GetAtt, or Fn::Sub."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key == "Ref" and isinstance(inner, str):
                yield inner
            elif key == "Fn::GetAtt":
                yield inner.partition(".")[0] if isinstance(inner, str) else inner[0]
            elif key == "Fn::Sub":
                text = inner if isinstance(inner, str) else inner[0]
                yield from (name.partition(".")[0] for name in re.findall(r"\$\{([^!}]+)\}", text))
            yield from references(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from references(inner)
