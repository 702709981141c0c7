"""Describe what a deployment does to each stack.

It compares templates only, without AWS calls.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import public
from tritonstack.operate.synth.assembly import (
    EndpointTemplate,
    Properties,
    Template,
    parameter_of,
    references,
)

# SageMaker rejects a new instance type for, or the removal of, a variant with registered scaling.
# CloudFormation removes the registration after it changes the endpoint, so the update needs two phases: first
# without the registration, then the change.


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


Action = Literal["create", "nothing", "change", "roll-out", "two-phase", "rejected"]
"""change: resources around the endpoint, or a stack without one; the endpoint is not affected."""

_VARIANT_WORDS = {
    "InstanceType": "instance type",
    "InitialInstanceCount": "number of instances",
    "InitialVariantWeight": "weight",
    "VolumeSizeInGB": "volume",
    "InferenceAmiVersion": "host image",
}
_MODEL_WORDS = {"ModelDataUrl": "artifact", "Image": "image", "Environment": "environment variables"}
_IN_PLACE = frozenset({"Tags"})


@dataclass(frozen=True)
class StackPlan:
    """The plan of one stack."""

    stack: str
    action: Action
    endpoint: str | None = None
    """The endpoint's full name, if the stack has one."""
    reasons: tuple[str, ...] = ()
    """Why the endpoint is rolled out."""
    rollout: str = ""
    """How it is rolled out."""
    hazards: tuple[Hazard, ...] = ()

    @public
    def summary(self) -> str:
        """The plan in one sentence."""
        return f"{self.stack}: {self._description()}"

    @property
    def details(self) -> list[str]:
        """Return further notes, one per line."""
        if self.action == "rejected":
            return [f"help: {hazard.remedy}" for hazard in self.hazards if hazard.rejected and hazard.remedy]
        if self.action not in ("roll-out", "two-phase"):
            return []
        return [self.rollout, *(f"two phases, because {hazard.what}" for hazard in self.hazards)]

    def _description(self) -> str:
        if self.endpoint is None or self.action in ("create", "nothing", "change"):
            subject = f" with the endpoint {self.endpoint}" if self.endpoint else ""
            untouched = f"; endpoint {self.endpoint} is not affected" if self.endpoint else ""
            return {
                "create": f"is created{subject}",
                "nothing": "nothing changes",
                "change": f"is changed{untouched}",
            }[self.action]
        if self.action == "rejected":
            return "rejected: " + "; ".join(hazard.what for hazard in self.hazards if hazard.rejected)
        how = " in two phases" if self.action == "two-phase" else ""
        return f"rollout of endpoint {self.endpoint}{how}: {'; '.join(self.reasons)}"


def plan_stack(stack: str, *, deployed: Template | None, new: Template) -> StackPlan:
    """Plan the change from `deployed`, or the creation if it is None."""
    new_template = EndpointTemplate(new)
    name = new_template.endpoint["EndpointName"] if new_template.endpoint else None
    if deployed is None:
        return StackPlan(stack, "create", name)
    if deployed == new:
        return StackPlan(stack, "nothing", name)
    old = EndpointTemplate(deployed)
    if new_template.endpoint is None or old.endpoint is None:
        return StackPlan(stack, "change", name)
    conflicts = tuple(hazards(deployed, new))
    reasons = tuple(rollout_reasons(old, new_template))
    action: Action = "roll-out" if reasons else "change"
    if conflicts:
        action = "rejected" if any(hazard.rejected for hazard in conflicts) else "two-phase"
    return StackPlan(stack, action, name, reasons, describe_rollout(new_template), conflicts)


def rollout_reasons(old: EndpointTemplate, new: EndpointTemplate) -> Iterator[str]:
    """Return the changes for which SageMaker replaces instances or copies."""
    for name in sorted({*old.variants, *new.variants}):
        before, after = old.variants.get(name), new.variants.get(name)
        if before is None or after is None:
            yield f"variant {name!r} is {'added' if before is None else 'removed'}"
            continue
        changes = [
            *_changes(before, after, _VARIANT_WORDS, ignored={"ModelName"}),
            *_changes(_container(old, before), _container(new, after), _MODEL_WORDS),
        ]
        if changes:
            yield f"{name}: {', '.join(changes)}"
    yield from _changes(
        old.config, new.config, {}, ignored={"ProductionVariants", "ShadowProductionVariants"}
    )
    if old.component and new.component:
        changes = [
            *_changes(old.component, new.component, {}, ignored={"DeploymentConfig", "RuntimeConfig"}),
            *_changes(_container(old, old.component), _container(new, new.component), _MODEL_WORDS),
        ]
        if changes:
            yield f"inference component: {', '.join(changes)}"


def describe_rollout(side: EndpointTemplate) -> str:
    """Return the rollout strategy and its rollback alarms."""
    holder = side.component or side.endpoint or {}
    config: Properties = holder.get("DeploymentConfig", {})
    alarms = [item["AlarmName"] for item in config.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
    back = f"automatic rollback on: {', '.join(alarms)}" if alarms else "no rollback alarms"
    return f"{_strategy(config, side.template)}; {back}"


def _strategy(config: Properties, template: Template) -> str:
    if "RollingUpdatePolicy" in config:
        policy = config["RollingUpdatePolicy"]
        size = policy["MaximumBatchSize"]
        if parameter := parameter_of(size["Value"], template):
            size = {**size, "Value": f"at least {parameter['Default']}"}
        return f"rolling, {_size(size)} per batch, {policy.get('WaitIntervalInSeconds', 0)} s between batches"
    policy = config.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    wait, bake = routing.get("WaitIntervalInSeconds", 0), policy.get("TerminationWaitInSeconds", 0)
    how = "all at once"
    if routing.get("Type") == "CANARY":
        how = f"canary, {_size(routing['CanarySize'])} first, then {wait} s wait"
    elif routing.get("Type") == "LINEAR":
        how = f"linear, {_size(routing['LinearStepSize'])} per step, {wait} s between steps"
    return f"{how}, old instances kept {bake} s"


def _size(size: Mapping[str, Any]) -> str:
    return f"{size['Value']} %" if size["Type"].endswith("_PERCENT") else f"{size['Value']}"


def _container(side: EndpointTemplate, holder: Properties) -> dict[str, Any]:
    model = side.model(holder)
    rest = {key: value for key, value in model.items() if key not in ("PrimaryContainer", "Containers")}
    containers = [model["PrimaryContainer"]] if "PrimaryContainer" in model else model.get("Containers", [{}])
    return {**rest, **containers[0]}


def _changes(
    before: Properties, after: Properties, labels: Mapping[str, str], *, ignored: set[str] | None = None
) -> Iterator[str]:
    """Return the differing fields, with short values."""
    for key in sorted({*before, *after} - _IN_PLACE - (ignored or set())):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        shown = isinstance(old, str | int | float) and isinstance(new, str | int | float)
        values = f" {old} → {new}" if shown and key not in ("ModelDataUrl", "Image") else ""
        yield f"{labels.get(key, key)}{values}"
