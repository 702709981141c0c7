"""Rules for endpoints: exclusive modes, hardware, and inference component sizes.

Each rule checks a whole endpoint and names the field to change. SageMaker's restrictions come from its
documentation (shadow tests, deployment guardrails, asynchronous inference, multi-model support).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tritonstack.base.error_kinds import InstanceTypeError, UnavailableOptionError
from tritonstack.base.yaml import FieldPath, Violation
from tritonstack.facts.container_variables import variable_violations
from tritonstack.facts.hardware import InstanceType
from tritonstack.spec.endpoints.serving import Components, ServingOptions
from tritonstack.spec.endpoints.variants import CHALLENGER, SHADOW, Variant

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
