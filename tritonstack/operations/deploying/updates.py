"""Updates of an endpoint that SageMaker refuses, and the way round those that have one.

A variant that is registered for scaling cannot change its instance type, nor go. CloudFormation takes a
registration off only after it has changed the endpoint, so such an update needs two: first the stack as it
is, without those registrations, then the stack as it is to be.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.deploying.assembly import Template
from tritonstack.operations.deploying.endpoint_template import EndpointTemplate, references

_POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
_GOES_WITH_SCALING = frozenset({_POLICY, "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"})

_ANOTHER_NAME = (
    "serve it as another endpoint: give it a new key in the environment's file, deploy, move the callers, "
    "then remove the old key and delete its stack"
)


@dataclass(frozen=True)
class Hazard:
    """A change that SageMaker refuses to make in one update."""

    what: str
    variant: str | None = None
    """The variant whose registration is in the way; None where no order of updates leads there."""
    remedy: str | None = None
    """What leads there instead."""

    @property
    def refused(self) -> bool:
        """Whether there is no way round it."""
        return self.variant is None


def hazards(deployed: Template, new: Template) -> list[Hazard]:
    """What SageMaker would refuse of the change from the one template of an endpoint's stack to the other."""
    old, wanted = EndpointTemplate(deployed), EndpointTemplate(new)
    if old.endpoint is None or wanted.endpoint is None:
        return []
    return [*_other_modes(old, wanted), *_scaled_variants(old, wanted)]


def unregistered(template: Template, variants: Collection[str]) -> Template:
    """A stack as it is, without what makes these variants scale and whatever refers to that."""
    scaled = EndpointTemplate(template).targets
    resources = template["Resources"]
    gone = {name for name, variant in scaled.items() if variant in variants}
    gone |= set(_policies_on(resources, [resources[name]["Properties"]["ResourceId"] for name in gone]))
    while more := {
        name
        for name, item in resources.items()
        if name not in gone and gone & set(references(item.get("Properties", {})))
    }:
        _require_dispensable(resources, more)
        gone |= more
    outputs = {
        name: item for name, item in template.get("Outputs", {}).items() if not gone & set(references(item))
    }
    kept = {name: _without(item, gone) for name, item in resources.items() if name not in gone}
    return {**template, "Resources": kept, **({"Outputs": outputs} if "Outputs" in template else {})}


def _other_modes(old: EndpointTemplate, wanted: EndpointTemplate) -> Iterator[Hazard]:
    """An endpoint is made for one way of being called, and keeps it."""
    asynchronous = ["AsyncInferenceConfig" in side.config for side in (old, wanted)]
    if asynchronous[0] != asynchronous[1]:
        ways = ("answers at once", "takes requests into a queue")
        yield Hazard(
            f"the endpoint {ways[asynchronous[0]]}, and SageMaker cannot change it into one that "
            f"{ways[asynchronous[1]]}",
            remedy=_ANOTHER_NAME,
        )
    components = [_serves_components(side) for side in (old, wanted)]
    if components[0] != components[1]:
        holders = ("by models on its variants", "by inference components")
        yield Hazard(
            f"the endpoint serves {holders[components[0]]}, and SageMaker cannot change it into one that "
            f"serves {holders[components[1]]}",
            remedy=_ANOTHER_NAME,
        )
    elif components[0]:
        yield from _component_machines(old, wanted)


def _component_machines(old: EndpointTemplate, wanted: EndpointTemplate) -> Iterator[Hazard]:
    """SageMaker changes the instance type of no endpoint that is made for inference components."""
    for variant in sorted(set(old.variants) & set(wanted.variants)):
        before, after = (side.variants[variant].get("InstanceType") for side in (old, wanted))
        if before != after:
            yield Hazard(
                f"the instance type changes from {before} to {after}, and SageMaker keeps that of endpoints "
                "that serve inference components",
                remedy=_ANOTHER_NAME,
            )


def _serves_components(side: EndpointTemplate) -> bool:
    return any("ModelName" not in variant for variant in side.variants.values())


def _scaled_variants(old: EndpointTemplate, wanted: EndpointTemplate) -> Iterator[Hazard]:
    for variant in sorted(set(old.targets.values())):
        if variant not in wanted.variants:
            yield Hazard(f"the variant {variant!r} goes, and it is registered for scaling", variant)
            continue
        before, after = (side.variants.get(variant, {}).get("InstanceType") for side in (old, wanted))
        if before != after:
            yield Hazard(
                f"the instance type of {variant!r} changes from {before} to {after}, and it is registered "
                "for scaling",
                variant,
            )


def _policies_on(resources: Mapping[str, Any], places: Collection[Any]) -> Iterator[str]:
    """Policies that name what they scale by its text instead of referring to its registration."""
    texts = {json.dumps(place) for place in places}
    for name, item in resources.items():
        if item["Type"] == _POLICY and json.dumps(item["Properties"].get("ResourceId")) in texts:
            yield name


def _require_dispensable(resources: Mapping[str, Any], names: Collection[str]) -> None:
    for name in sorted(names):
        if resources[name]["Type"] not in _GOES_WITH_SCALING:
            raise TritonstackError(
                f"scaling cannot be taken off for a while: {name} ({resources[name]['Type']}) refers to it",
                remedy="deploy min_instances equal to max_instances, then the change, then the range again",
            )


def _without(item: Mapping[str, Any], gone: Collection[str]) -> Mapping[str, Any]:
    """A resource that no longer waits for what is gone."""
    if "DependsOn" not in item:
        return item
    waits = [item["DependsOn"]] if isinstance(item["DependsOn"], str) else item["DependsOn"]
    left = [name for name in waits if name not in gone]
    rest = {key: value for key, value in item.items() if key != "DependsOn"}
    return {**rest, "DependsOn": left} if left else rest
