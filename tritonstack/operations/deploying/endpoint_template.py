"""An endpoint as a CloudFormation template has it: its configuration, its variants, and what scales them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.operations.deploying.assembly import Template

Properties = Mapping[str, Any]

ENDPOINT = "AWS::SageMaker::Endpoint"
CONFIG = "AWS::SageMaker::EndpointConfig"
MODEL = "AWS::SageMaker::Model"
COMPONENT = "AWS::SageMaker::InferenceComponent"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"

_VARIANT_COUNT = "sagemaker:variant:DesiredInstanceCount"
_VARIANT = re.compile(r"variant/([A-Za-z0-9-]+)")


@dataclass(frozen=True)
class EndpointTemplate:
    """The one endpoint of a stack."""

    template: Template

    @property
    def endpoint(self) -> Properties | None:
        """The endpoint's properties; None where the template has none."""
        return next((item["Properties"] for item in self._of_type(ENDPOINT).values()), None)

    @property
    def component(self) -> Properties | None:
        """The properties of its inference component, where it has one."""
        return next((item["Properties"] for item in self._of_type(COMPONENT).values()), None)

    @property
    def config(self) -> Properties:
        """The properties of its configuration."""
        return next((item["Properties"] for item in self._of_type(CONFIG).values()), {})

    @property
    def variants(self) -> Mapping[str, Properties]:
        """The properties of each variant, shadows too."""
        listed = [
            *self.config.get("ProductionVariants", ()),
            *self.config.get("ShadowProductionVariants", ()),
        ]
        return {variant["VariantName"]: variant for variant in listed}

    @property
    def targets(self) -> Mapping[str, str]:
        """The logical ids of what makes variants scale, each with its variant's name."""
        found = {}
        for logical_id, item in self._of_type(TARGET).items():
            properties = item["Properties"]
            named = _VARIANT.search(json.dumps(properties["ResourceId"]))
            if properties["ScalableDimension"] == _VARIANT_COUNT and named:
                found[logical_id] = named[1]
        return found

    def model(self, holder: Properties) -> Properties:
        """The properties of the model that a variant, or a component, refers to."""
        resources = self.template.get("Resources", {})
        referred = (resources[name] for name in references(holder) if name in resources)
        return next((item["Properties"] for item in referred if item["Type"] == MODEL), {})

    def _of_type(self, kind: str) -> dict[str, Any]:
        resources = self.template.get("Resources", {})
        return {name: item for name, item in resources.items() if item["Type"] == kind}


def references(value: Any) -> Iterator[str]:
    """The logical ids that a part of a template refers to, by Ref, Fn::GetAtt or Fn::Sub."""
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
