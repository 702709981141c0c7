"""What a deploy will do to each stack of an environment, in plain words, before it is done.

Only templates are compared: nothing here calls AWS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tritonstack.operations.deploying.assembly import Template
from tritonstack.operations.deploying.endpoint_template import EndpointTemplate, Properties
from tritonstack.operations.deploying.updates import Hazard, hazards

Action = Literal["create", "nothing", "change", "roll-out", "two-phase", "refused"]
"""change: resources around the endpoint, or of a stack without one; the endpoint serves on untouched."""

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
    """What becomes of one stack."""

    stack: str
    action: Action
    endpoint: str | None = None
    """The endpoint's full name, where the stack has one."""
    reasons: tuple[str, ...] = ()
    """Why the endpoint rolls out."""
    rollout: str = ""
    """How it rolls out."""
    hazards: tuple[Hazard, ...] = ()

    @property
    def words(self) -> str:
        """The plan in one sentence."""
        return f"{self.stack}: {self._words()}"

    @property
    def details(self) -> list[str]:
        """What there is to know beside that, a line each."""
        if self.action == "refused":
            return [f"help: {hazard.remedy}" for hazard in self.hazards if hazard.refused and hazard.remedy]
        if self.action not in ("roll-out", "two-phase"):
            return []
        return [self.rollout, *(f"two phases, because {hazard.what}" for hazard in self.hazards)]

    def facts(self) -> dict[str, Any]:
        """The plan for machines."""
        return asdict(self) | {"words": self.words}

    def _words(self) -> str:
        if self.endpoint is None or self.action in ("create", "nothing", "change"):
            subject = f" with the endpoint {self.endpoint}" if self.endpoint else ""
            untouched = f"; the endpoint {self.endpoint} serves on untouched" if self.endpoint else ""
            return {
                "create": f"is created{subject}",
                "nothing": "nothing changes",
                "change": f"is changed{untouched}",
            }[self.action]
        if self.action == "refused":
            return "refused: " + "; ".join(hazard.what for hazard in self.hazards if hazard.refused)
        how = " in two phases" if self.action == "two-phase" else ""
        return f"the endpoint {self.endpoint} rolls out{how}: {'; '.join(self.reasons)}"


def plan_stack(stack: str, *, deployed: Template | None, new: Template) -> StackPlan:
    """What a deploy makes of a stack that stands as `deployed`, or does not stand."""
    wanted = EndpointTemplate(new)
    name = wanted.endpoint["EndpointName"] if wanted.endpoint else None
    if deployed is None:
        return StackPlan(stack, "create", name)
    if deployed == new:
        return StackPlan(stack, "nothing", name)
    old = EndpointTemplate(deployed)
    if wanted.endpoint is None or old.endpoint is None:
        return StackPlan(stack, "change", name)
    found = tuple(hazards(deployed, new))
    reasons = tuple(rollout_reasons(old, wanted))
    action: Action = "roll-out" if reasons else "change"
    if found:
        action = "refused" if any(hazard.refused for hazard in found) else "two-phase"
    return StackPlan(stack, action, name, reasons, describe_rollout(wanted), found)


def rollout_reasons(old: EndpointTemplate, new: EndpointTemplate) -> Iterator[str]:
    """What of an endpoint SageMaker replaces its machines, or its copies, for."""
    for name in sorted({*old.variants, *new.variants}):
        before, after = old.variants.get(name), new.variants.get(name)
        if before is None or after is None:
            yield f"the variant {name!r} {'comes' if before is None else 'goes'}"
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
            *_changes(old.component, new.component, {}, ignored={"DeploymentConfig"}),
            *_changes(_container(old, old.component), _container(new, new.component), _MODEL_WORDS),
        ]
        if changes:
            yield f"inference component: {', '.join(changes)}"


def describe_rollout(side: EndpointTemplate) -> str:
    """How an update reaches an endpoint, and what takes it back."""
    holder = side.component or side.endpoint or {}
    config: Properties = holder.get("DeploymentConfig", {})
    alarms = [item["AlarmName"] for item in config.get("AutoRollbackConfiguration", {}).get("Alarms", ())]
    back = f"back if one of these alarms rings: {', '.join(alarms)}" if alarms else "no alarm takes it back"
    return f"{_strategy(config)}; {back}"


def _strategy(config: Properties) -> str:
    if "RollingUpdatePolicy" in config:
        policy = config["RollingUpdatePolicy"]
        return (
            f"in batches of {_size(policy['MaximumBatchSize'])}, each watched for "
            f"{policy.get('WaitIntervalInSeconds', 0)} s"
        )
    policy = config.get("BlueGreenUpdatePolicy", {})
    routing = policy.get("TrafficRoutingConfiguration", {})
    wait, bake = routing.get("WaitIntervalInSeconds", 0), policy.get("TerminationWaitInSeconds", 0)
    how = "all at once"
    if routing.get("Type") == "CANARY":
        how = f"with {_size(routing['CanarySize'])} first, watched for {wait} s"
    elif routing.get("Type") == "LINEAR":
        how = f"in steps of {_size(routing['LinearStepSize'])}, each watched for {wait} s"
    return f"{how}, the old machines kept for {bake} s"


def _size(size: Mapping[str, Any]) -> str:
    return f"{size['Value']} %" if size["Type"].endswith("_PERCENT") else f"{size['Value']} of them"


def _container(side: EndpointTemplate, holder: Properties) -> dict[str, Any]:
    """A model with its container's fields beside its own."""
    model = side.model(holder)
    rest = {key: value for key, value in model.items() if key not in ("PrimaryContainer", "Containers")}
    containers = [model["PrimaryContainer"]] if "PrimaryContainer" in model else model.get("Containers", [{}])
    return {**rest, **containers[0]}


def _changes(
    before: Properties, after: Properties, words: Mapping[str, str], *, ignored: set[str] | None = None
) -> Iterator[str]:
    """The fields that differ, with their values where a person reads those at a glance."""
    for key in sorted({*before, *after} - _IN_PLACE - (ignored or set())):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        shown = isinstance(old, str | int | float) and isinstance(new, str | int | float)
        values = f" {old} → {new}" if shown and key not in ("ModelDataUrl", "Image") else ""
        yield f"{words.get(key, key)}{values}"
