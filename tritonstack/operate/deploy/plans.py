"""Describe what a deployment does to each stack.

It compares templates only, without AWS calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tritonstack.base.results import public
from tritonstack.operate.deploy.updates import Hazard, hazards
from tritonstack.operate.synth.assembly import Template
from tritonstack.operate.synth.endpoint_template import EndpointTemplate, Properties, parameter_of

Action = Literal["create", "nothing", "change", "roll-out", "two-phase", "rejected"]
"""change: resources around the endpoint, or a stack without one; the endpoint is not affected."""

_VARIANT_WORDS = {
    "InstanceType": "instance type",
    "InitialInstanceCount": "number of instances",
    "InitialVariantWeight": "weight",
    "VolumeSizeInGB": "volume",
    "InferenceAmiVersion": "host image",
}
_MODEL_WORDS = {
    "ModelDataUrl": "artifact",
    "Image": "image",
    "Environment": "environment variables",
}
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
    """Return a model's properties, merged with its container's."""
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
