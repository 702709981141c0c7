"""Detect endpoint updates that SageMaker rejects, and two-phase alternatives.

SageMaker rejects a new instance type for, or the removal of, a variant with registered scaling.
CloudFormation removes the registration after it changes the endpoint, so the update needs two phases: first
without the registration, then the change.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack.base.errors import TritonstackError
from tritonstack.operate.synth.assembly import Template
from tritonstack.operate.synth.endpoint_template import EndpointTemplate, references

_POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
_GOES_WITH_SCALING = frozenset({_POLICY, "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"})

_ANOTHER_NAME = (
    "deploy it as another endpoint: add a new key to the environment's file, deploy, move the callers, "
    "then remove the old key and delete its stack"
)


class RejectedChangeError(TritonstackError):
    """SageMaker or CloudFormation cannot make this change to deployed resources. The message names the steps
    that can, such as a second endpoint.
    """

    code = "TS506"
    title = "Change not possible by an update"


@dataclass(frozen=True)
class Hazard:
    """A change that SageMaker rejects as one update."""

    what: str
    variant: str | None = None
    """The variant whose registration blocks the update; None if no order of updates works."""
    remedy: str | None = None
    """The remedy."""

    @property
    def rejected(self) -> bool:
        """True if the update is impossible."""
        return self.variant is None


def hazards(deployed: Template, new: Template) -> list[Hazard]:
    """Return the changes between two templates of an endpoint's stack that SageMaker rejects."""
    old, updated = EndpointTemplate(deployed), EndpointTemplate(new)
    if old.endpoint is None or updated.endpoint is None:
        return []
    return [*_other_modes(old, updated), *_scaled_variants(old, updated)]


def unregistered(template: Template, variants: Collection[str]) -> Template:
    """Return a template without the scaling of these variants and references to it."""
    scaled = EndpointTemplate(template).targets
    resources = template["Resources"]
    removed = {name for name, variant in scaled.items() if variant in variants}
    removed |= set(_policies_on(resources, [resources[name]["Properties"]["ResourceId"] for name in removed]))
    while more := {
        name
        for name, item in resources.items()
        if name not in removed and removed & set(references(item.get("Properties", {})))
    }:
        _require_dispensable(resources, more)
        removed |= more
    outputs = {
        name: item
        for name, item in template.get("Outputs", {}).items()
        if not removed & set(references(item))
    }
    remaining = {name: _without(item, removed) for name, item in resources.items() if name not in removed}
    return {**template, "Resources": remaining, **({"Outputs": outputs} if "Outputs" in template else {})}


def _other_modes(old: EndpointTemplate, updated: EndpointTemplate) -> Iterator[Hazard]:
    """Reject a change of what an endpoint cannot change: its mode, and what holds its models."""
    for has, verb, without, with_it in (
        (_is_asynchronous, "is", "real-time", "asynchronous"),
        (_serves_components, "uses", "models on variants", "inference components"),
    ):
        before, after = (with_it if has(side) else without for side in (old, updated))
        if before != after:
            what = f"the endpoint {verb} {before}; SageMaker cannot change it to {after}"
            yield Hazard(what, remedy=_ANOTHER_NAME)
    if _serves_components(old) and _serves_components(updated):
        yield from _component_machines(old, updated)


def _component_machines(old: EndpointTemplate, updated: EndpointTemplate) -> Iterator[Hazard]:
    """Reject a new instance type for an endpoint with inference components."""
    for variant in sorted(set(old.variants) & set(updated.variants)):
        before, after = (side.variants[variant].get("InstanceType") for side in (old, updated))
        if before != after:
            yield Hazard(
                (
                    f"the instance type changes from {before} to {after}, which SageMaker does not support "
                    "with inference components"
                ),
                remedy=_ANOTHER_NAME,
            )


def _is_asynchronous(side: EndpointTemplate) -> bool:
    return "AsyncInferenceConfig" in side.config


def _serves_components(side: EndpointTemplate) -> bool:
    return any("ModelName" not in variant for variant in side.variants.values())


def _scaled_variants(old: EndpointTemplate, updated: EndpointTemplate) -> Iterator[Hazard]:
    for variant in sorted(set(old.targets.values())):
        if variant not in updated.variants:
            yield Hazard(f"variant {variant!r} is removed, but registered for scaling", variant)
            continue
        before, after = (side.variants.get(variant, {}).get("InstanceType") for side in (old, updated))
        if before != after:
            yield Hazard(
                (
                    f"the instance type of variant {variant!r} changes from {before} to {after}, but it is "
                    "registered for scaling"
                ),
                variant,
            )


def _policies_on(resources: Mapping[str, Any], places: Collection[Any]) -> Iterator[str]:
    """Return the policies that refer to their target by name instead of by reference."""
    texts = {json.dumps(place) for place in places}
    for name, item in resources.items():
        if item["Type"] == _POLICY and json.dumps(item["Properties"].get("ResourceId")) in texts:
            yield name


def _require_dispensable(resources: Mapping[str, Any], names: Collection[str]) -> None:
    for name in sorted(names):
        if resources[name]["Type"] not in _GOES_WITH_SCALING:
            raise RejectedChangeError(
                f"cannot remove scaling temporarily: {name} ({resources[name]['Type']}) refers to it",
                remedy=(
                    "deploy with min_instances equal to max_instances, then the change, then the original "
                    "range"
                ),
            )


def _without(item: Mapping[str, Any], removed: Collection[str]) -> Mapping[str, Any]:
    """Remove dependencies on removed resources."""
    if "DependsOn" not in item:
        return item
    waits = [item["DependsOn"]] if isinstance(item["DependsOn"], str) else item["DependsOn"]
    remaining = [name for name in waits if name not in removed]
    rest = {key: value for key, value in item.items() if key != "DependsOn"}
    return {**rest, "DependsOn": remaining} if remaining else rest
