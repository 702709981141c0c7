"""Rules for endpoints: exclusive modes, hardware, and inference component sizes.

Each rule checks a whole endpoint and names the field to change. SageMaker's restrictions come from its
documentation (shadow tests, deployment guardrails, asynchronous inference, multi-model support).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tritonstack.base.error_kinds import InstanceTypeError, ScalingError, UnavailableOptionError
from tritonstack.base.yaml import FieldPath, Violation
from tritonstack.facts.container_variables import variable_violations
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.endpoint.rollouts import (
    FIELDS,
    LONGEST_ROLLOUT_S,
    MOST_ROLLBACK_ALARMS,
    AlarmId,
    AllAtOnce,
    Canary,
    Linear,
    Rolling,
)
from tritonstack.files.endpoint.scaling import Scaling
from tritonstack.files.endpoint.serving import Components, ServingOptions
from tritonstack.files.endpoint.variants import CHALLENGER, SHADOW, Variant

MULTI_MODEL_GPUS = ("p2", "p3", "g4dn", "g5")
"""GPU families that support multi-model endpoints, in sizes with one GPU."""


@dataclass(frozen=True)
class RuledEndpoint:
    """An endpoint as the rules see it."""

    options: ServingOptions
    variants: tuple[Variant, ...]
    """All variants, main first."""
    multi_model: bool = False

    @property
    def production(self) -> tuple[Variant, ...]:
        """Variants that answer callers."""
        return tuple(variant for variant in self.variants if not variant.shadow)

    @property
    def mode(self) -> str:
        """The endpoint's mode in messages."""
        if self.options.asynchronous:
            return "an asynchronous endpoint"
        return "a multi-model endpoint" if self.multi_model else "an endpoint of inference components"

    def scaling_path(self, variant: Variant) -> FieldPath:
        """Return the path of a variant's scaling."""
        overrides = variant.scaling is not self.options.scaling
        return (variant.name, "scaling") if overrides else ("scaling",)

    def instance_path(self, variant: Variant) -> FieldPath:
        """Return the path of a variant's instance type."""
        overrides = variant.instance != self.variants[0].instance
        return (variant.name, "instance_type") if overrides else ("instance_type",)


def mode_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield modes that exclude each other."""
    options, beside = endpoint.options, {variant.name for variant in endpoint.variants[1:]}
    if endpoint.multi_model and options.asynchronous:
        yield UnavailableOptionError.at(
            ("asynchronous",),
            "SageMaker does not support asynchronous multi-model endpoints",
            "remove it, or use one asynchronous endpoint per model (kind: single or ensemble)",
        )
    if endpoint.multi_model and options.components:
        yield UnavailableOptionError.at(
            ("components",),
            "an inference component serves one model, but this endpoint has several",
            "remove it, or use one endpoint per model (kind: single or ensemble)",
        )
    if options.asynchronous and options.components:
        yield UnavailableOptionError.at(
            ("components",),
            "inference components do not support asynchronous endpoints",
            "remove one of the two; both scale to zero",
        )
    if options.asynchronous and options.data_capture:
        yield UnavailableOptionError.at(
            ("data_capture",),
            "asynchronous endpoints already store requests and responses in the data bucket",
            "remove it; asynchronous.expiry_days sets their retention",
        )
    if options.asynchronous or options.components:
        for name in sorted(beside):
            message = f"{endpoint.mode} supports one variant"
            yield UnavailableOptionError.at((name,), message, "remove it, or deploy a second endpoint")
    if {CHALLENGER, SHADOW} <= beside:
        yield UnavailableOptionError.at(
            (SHADOW,),
            "SageMaker supports a shadow only with one production variant, but there is a challenger",
            "remove one of the two",
        )


def multi_model_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield GPU instance types that do not support multi-model endpoints."""
    instance = endpoint.variants[0].instance
    if not endpoint.multi_model or not instance.gpus:
        return
    if instance.family.name not in MULTI_MODEL_GPUS or instance.gpus > 1:
        yield InstanceTypeError.at(
            ("instance_type",),
            f"SageMaker supports multi-model endpoints on CPUs and on single-GPU instances of the families "
            f"{', '.join(MULTI_MODEL_GPUS)}; {instance.name} has {_gpus(instance)}",
            "choose a type such as ml.g5.2xlarge or ml.c7i.2xlarge",
        )


def component_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield inference components that do not fit on their instances."""
    components, instance = endpoint.options.components, endpoint.variants[0].instance
    if components is None:
        return
    violations = list(_too_large(components, instance))
    yield from violations
    if violations:
        return
    fitting = copies_per_machine(components, instance)
    schedules = endpoint.options.scaling.schedules.values()
    copies = max([components.max_copies, *(schedule.max for schedule in schedules)])
    needed, allowed = math.ceil(copies / fitting), endpoint.options.scaling.max_instances
    if needed > allowed:
        yield InstanceTypeError.at(
            ("scaling", "max_instances"),
            f"{copies} copies need {needed} instances ({fitting} fit on one {instance.name}), but at most "
            f"{allowed} are allowed",
            f"write {needed}, or lower components.max_copies",
        )


def copies_per_machine(components: Components, instance: InstanceType) -> int:
    """Return how many component copies fit on an instance; SageMaker's own overhead is undocumented."""
    room = [math.ceil(instance.memory_gib * 1024 / components.memory_mb) - 1]
    if instance.gpus:
        room.append(instance.gpus // (components.accelerators or 1))
    if components.cpus:
        room.append(int(instance.vcpus / components.cpus))
    return min(room)


def _too_large(components: Components, instance: InstanceType) -> Iterator[Violation]:
    accelerators = components.accelerators or 0
    if accelerators > instance.gpus:
        yield InstanceTypeError.at(
            ("components", "accelerators"),
            f"a copy needs {accelerators} GPUs, but {instance.name} has {_gpus(instance)}",
            "choose an instance type with enough GPUs"
            if instance.gpus
            else "remove it, or choose a GPU type",
        )
    if components.cpus and components.cpus > instance.vcpus:
        yield InstanceTypeError.at(
            ("components", "cpus"),
            f"a copy needs {components.cpus:g} vCPUs, but {instance.name} has {instance.vcpus}",
            "lower it, or choose a larger instance type",
        )
    memory = int(instance.memory_gib * 1024)
    if components.memory_mb >= memory:
        yield InstanceTypeError.at(
            ("components", "memory_mb"),
            f"a copy needs {components.memory_mb:,} MB, but {instance.name} has {memory:,} MB for copies and "
            "the host together",
            "lower it, or choose a larger instance type",
        )


def environment_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield environment variables that would keep the container from starting."""
    model = endpoint.variants[0].model
    for violation in variable_violations(endpoint.options.environment, model=model):
        yield replace(violation, path=("environment", *violation.path))


def _gpus(instance: InstanceType) -> str:
    gpu = instance.family.gpu
    if gpu is None:
        return "none"
    return f"one {gpu}" if instance.gpus == 1 else f"{instance.gpus} {gpu}s"


def rollout_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield rollouts that SageMaker would reject or never finish."""
    rollout = endpoint.options.rollout
    if rollout is None:
        return
    if endpoint.options.components and not isinstance(rollout, Rolling):
        yield ScalingError.at(
            ("rollout", "strategy"),
            "inference components support rolling updates only",
            "write `strategy: rolling`, or omit rollout",
        )
        return
    yield from _too_few_machines(endpoint, rollout)
    yield from _too_long(rollout)
    if isinstance(rollout, Rolling) and len(endpoint.variants) > 1:
        yield ScalingError.at(
            ("rollout", "strategy"),
            f"SageMaker supports rolling updates only with one variant, but there is a "
            f"{endpoint.variants[1].name}",
            "choose all-at-once, canary or linear",
        )
    yield from _missing_alarms(endpoint, rollout.roll_back_on or ())


def _too_few_machines(
    endpoint: RuledEndpoint, rollout: AllAtOnce | Canary | Linear | Rolling
) -> Iterator[Violation]:
    """Each part must be at least one instance; SageMaker does not document its rounding."""
    if isinstance(rollout, AllAtOnce) or endpoint.options.components:
        return
    field = {"canary": "percent", "linear": "step_percent", "rolling": "batch_percent"}[rollout.strategy]
    percent: int = getattr(rollout, field)
    for variant in endpoint.variants:
        least = variant.scaling.lowest
        path = ".".join(map(str, endpoint.scaling_path(variant)))
        if least < 2:
            yield ScalingError.at(
                ("rollout", "strategy"),
                f"a {rollout.strategy} rollout needs at least 2 instances, but {path} allows only {least}",
                f"raise min_instances (and min of schedules) of {path} to 2, or choose all-at-once",
            )
        elif percent * least < 100:
            enough = -(-100 // least)
            yield ScalingError.at(
                ("rollout", field),
                f"{percent} % of {path}'s minimum of {least} instances is less than one instance",
                f"write {enough} or more",
            )


def _too_long(rollout: AllAtOnce | Canary | Linear | Rolling) -> Iterator[Violation]:
    """Yield rollouts whose waits alone exceed SageMaker's time limit."""
    if rollout.shifting_s >= LONGEST_ROLLOUT_S:
        yield ScalingError.at(
            ("rollout",),
            f"the waits of this rollout take {rollout.shifting_s:,} s, but SageMaker's limit is "
            f"{LONGEST_ROLLOUT_S:,} s",
            "use larger parts or shorter waits",
        )


def _missing_alarms(endpoint: RuledEndpoint, alarms: tuple[AlarmId, ...]) -> Iterator[Violation]:
    for index, alarm in enumerate(alarms):
        reason = _missing(endpoint, alarm)
        if reason:
            remedy = "remove it, or set the alarm's threshold" if "null" in reason else "remove it"
            yield ScalingError.at(
                ("rollout", "roll_back_on", index), f"unavailable alarm {alarm!r}: {reason}", remedy
            )
    names = len(alarms) * len(endpoint.production)
    if names > MOST_ROLLBACK_ALARMS:
        yield ScalingError.at(
            ("rollout", "roll_back_on"),
            f"{len(alarms)} alarms on {len(endpoint.production)} variants make {names} alarms, but SageMaker "
            f"supports at most {MOST_ROLLBACK_ALARMS}",
            f"list at most {MOST_ROLLBACK_ALARMS // len(endpoint.production)} alarms",
        )


def _missing(endpoint: RuledEndpoint, alarm: AlarmId) -> str | None:
    """Return why an endpoint lacks an alarm; None if it has it."""
    if alarm == "gpu-memory" and not any(variant.instance.gpus for variant in endpoint.production):
        return f"{endpoint.variants[0].instance.name} has no GPU"
    if alarm == "overhead-p99" and endpoint.options.asynchronous:
        return "asynchronous endpoints do not publish the overhead metric"
    if alarm == "triton-errors" and len(endpoint.production) < len(endpoint.variants):
        return "the shadow writes to the same log, so its errors would count"
    if alarm == "backlog" and endpoint.options.asynchronous is None:
        return "only asynchronous endpoints have a backlog"
    if getattr(endpoint.options.alarms, FIELDS[alarm]) is None:
        return f"alarms.{FIELDS[alarm]} is null or not given"
    return None


_ANSWERED_AT_ONCE = ("invocations_per_instance", "concurrent_requests_per_model")
"""Metrics that asynchronous endpoints do not publish: a policy on one would never act."""
_COMPONENT_MEASURES = "components.invocations_per_copy or components.concurrent_requests_per_copy"


def scaling_violations(endpoint: RuledEndpoint) -> Iterator[Violation]:
    """Yield limits and metrics that the endpoint's mode or hardware does not support."""
    for variant in endpoint.variants:
        path = endpoint.scaling_path(variant)
        if not endpoint.options.scales_to_zero:
            yield from _at_zero(variant.scaling, path)
        for measure, field in _measures(variant.scaling):
            yield from _without_measure(endpoint, variant, measure, (*path, *field))
        yield from _burstable(endpoint, variant)
    if endpoint.options.alarms.backlog is not None and endpoint.options.asynchronous is None:
        yield UnavailableOptionError.at(
            ("alarms", "backlog"),
            "only asynchronous endpoints have a backlog metric",
            "remove it, or add `asynchronous: {}`",
        )


def _at_zero(scaling: Scaling, path: FieldPath) -> Iterator[Violation]:
    places: list[FieldPath] = [("min_instances",)] if scaling.min_instances == 0 else []
    places += [("schedules", name, "min") for name, night in scaling.schedules.items() if night.min == 0]
    for place in places:
        yield ScalingError.at(
            (*path, *place),
            "real-time endpoints need at least one instance",
            "write 1 or more; only asynchronous endpoints and inference components scale to 0",
        )


def _measures(scaling: Scaling) -> Iterator[tuple[str, FieldPath]]:
    """Yield scaling metrics and their paths in the file."""
    for measure in scaling.measures:
        yield measure, (measure,)
    if scaling.steps:
        yield scaling.steps.metric, ("steps", "metric")


def _without_measure(
    endpoint: RuledEndpoint, variant: Variant, measure: str, path: FieldPath
) -> Iterator[Violation]:
    if endpoint.options.components:
        yield ScalingError.at(
            path,
            "inference components do not support instance metrics",
            f"remove it and set {_COMPONENT_MEASURES}",
        )
    elif measure in _ANSWERED_AT_ONCE and endpoint.options.asynchronous:
        yield ScalingError.at(
            path,
            "SageMaker does not publish this metric for asynchronous endpoints, so scaling would never act",
            "write backlog_per_instance instead",
        )
    elif measure == "backlog_per_instance" and not endpoint.options.asynchronous:
        yield ScalingError.at(
            path,
            "only asynchronous endpoints have a backlog metric",
            "remove it and use invocations_per_instance, or add `asynchronous: {}`",
        )
    elif measure == "gpu_utilization_percent" and not variant.instance.gpus:
        yield InstanceTypeError.at(
            path,
            f"{variant.instance.name} has no GPU",
            "remove it and use invocations_per_instance, or choose an instance type with a GPU",
        )


def _burstable(endpoint: RuledEndpoint, variant: Variant) -> Iterator[Violation]:
    scaled = variant.scaling.varies or endpoint.options.components is not None
    if variant.instance.family.burstable and scaled:
        yield ScalingError.at(
            endpoint.instance_path(variant),
            f"SageMaker does not scale burstable instance types such as {variant.instance.name}",
            "choose a type such as ml.m5.large, or fix the number: scaling: {min_instances: 1, "
            "max_instances: 1}",
        )
