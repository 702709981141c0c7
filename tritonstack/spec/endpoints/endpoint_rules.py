"""What cannot be together on one endpoint: modes, machines, and how much of a machine a copy takes.

Each rule looks at a whole endpoint and names the field that has to change. What SageMaker excludes is read
from its documentation (shadow tests, deployment guardrails, asynchronous inference, multi-model support).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tritonstack.base.documents import Fault, FieldPath
from tritonstack.reference.container_variables import variable_faults
from tritonstack.reference.hardware import InstanceType
from tritonstack.spec.endpoints.serving import Components, ServingOptions
from tritonstack.spec.endpoints.variants import CHALLENGER, SHADOW, Variant

MULTI_MODEL_GPUS = ("p2", "p3", "g4dn", "g5")
"""GPU families of which SageMaker hosts multi-model endpoints, on the sizes with one GPU."""


@dataclass(frozen=True)
class RuledEndpoint:
    """What the rules look at."""

    options: ServingOptions
    variants: tuple[Variant, ...]
    """All of them, the main one first."""
    multi_model: bool = False

    @property
    def production(self) -> tuple[Variant, ...]:
        """The variants whose answers callers get."""
        return tuple(variant for variant in self.variants if not variant.shadow)

    @property
    def mode(self) -> str:
        """How the endpoint is called where a rule speaks of it."""
        if self.options.asynchronous:
            return "an asynchronous endpoint"
        return "a multi-model endpoint" if self.multi_model else "an endpoint of inference components"

    def scaling_path(self, variant: Variant) -> FieldPath:
        """Where the file says how a variant scales."""
        own = variant.scaling is not self.options.scaling
        return (variant.name, "scaling") if own else ("scaling",)

    def instance_path(self, variant: Variant) -> FieldPath:
        """Where the file says what a variant runs on."""
        own = variant.instance != self.variants[0].instance
        return (variant.name, "instance_type") if own else ("instance_type",)


def mode_faults(endpoint: RuledEndpoint) -> Iterator[Fault]:
    """Modes that exclude each other."""
    options, beside = endpoint.options, {variant.name for variant in endpoint.variants[1:]}
    if endpoint.multi_model and options.asynchronous:
        yield Fault(
            ("asynchronous",),
            "SageMaker does not take requests for multi-model endpoints into a queue",
            "remove it, or give each model an asynchronous endpoint of its own (kind: single or ensemble)",
        )
    if endpoint.multi_model and options.components:
        yield Fault(
            ("components",),
            "an inference component serves one model, and this endpoint has several",
            "remove it, or give each model an endpoint of its own (kind: single or ensemble)",
        )
    if options.asynchronous and options.components:
        yield Fault(
            ("components",),
            "inference components answer at once, and this endpoint is asynchronous",
            "remove one of the two; both scale to zero",
        )
    if options.asynchronous and options.data_capture:
        yield Fault(
            ("data_capture",),
            "the requests and answers of an asynchronous endpoint lie in the data bucket already",
            "remove it; asynchronous.expiry_days says how long they are kept",
        )
    if options.asynchronous or options.components:
        for name in sorted(beside):
            yield Fault((name,), f"{endpoint.mode} has one variant", "remove it, or deploy a second endpoint")
    if {CHALLENGER, SHADOW} <= beside:
        yield Fault(
            (SHADOW,),
            "SageMaker shadows endpoints with one production variant only, and there is a challenger",
            "remove one of the two",
        )


def multi_model_faults(endpoint: RuledEndpoint) -> Iterator[Fault]:
    """GPU machines that SageMaker hosts no multi-model endpoint on."""
    instance = endpoint.variants[0].instance
    if not endpoint.multi_model or not instance.gpus:
        return
    if instance.family.name not in MULTI_MODEL_GPUS or instance.gpus > 1:
        yield Fault(
            ("instance_type",),
            f"SageMaker hosts multi-model endpoints on CPUs and on machines with one GPU of the families "
            f"{', '.join(MULTI_MODEL_GPUS)}; {instance.name} has {_gpus(instance)}",
            "choose a type such as ml.g5.2xlarge or ml.c7i.2xlarge",
        )


def component_faults(endpoint: RuledEndpoint) -> Iterator[Fault]:
    """Copies that no machine has room for."""
    components, instance = endpoint.options.components, endpoint.variants[0].instance
    if components is None:
        return
    faults = list(_too_large(components, instance))
    yield from faults
    if faults:
        return
    fitting = copies_per_machine(components, instance)
    schedules = endpoint.options.scaling.schedules.values()
    copies = max([components.max_copies, *(schedule.max for schedule in schedules)])
    needed, allowed = math.ceil(copies / fitting), endpoint.options.scaling.max_instances
    if needed > allowed:
        yield Fault(
            ("scaling", "max_instances"),
            f"{copies} copies need {needed} machines ({fitting} fit on one {instance.name}), and {allowed} "
            "are allowed",
            f"write {needed}, or lower components.max_copies",
        )


def copies_per_machine(components: Components, instance: InstanceType) -> int:
    """How many copies of a component a machine holds; SageMaker says of no machine what it keeps itself."""
    room = [math.ceil(instance.memory_gib * 1024 / components.memory_mb) - 1]
    if instance.gpus:
        room.append(instance.gpus // (components.accelerators or 1))
    if components.cpus:
        room.append(int(instance.vcpus / components.cpus))
    return min(room)


def _too_large(components: Components, instance: InstanceType) -> Iterator[Fault]:
    accelerators = components.accelerators or 0
    if accelerators > instance.gpus:
        yield Fault(
            ("components", "accelerators"),
            f"a copy needs {accelerators} GPUs, and {instance.name} has {_gpus(instance)}",
            "choose an instance type with enough GPUs"
            if instance.gpus
            else "remove it, or choose a GPU type",
        )
    if components.cpus and components.cpus > instance.vcpus:
        yield Fault(
            ("components", "cpus"),
            f"a copy needs {components.cpus:g} processor cores, and {instance.name} has {instance.vcpus}",
            "lower it, or choose a larger instance type",
        )
    memory = int(instance.memory_gib * 1024)
    if components.memory_mb >= memory:
        yield Fault(
            ("components", "memory_mb"),
            f"a copy needs {components.memory_mb:,} MB, and {instance.name} has {memory:,} MB for copies and "
            "host together",
            "lower it, or choose a larger instance type",
        )


def environment_faults(endpoint: RuledEndpoint) -> Iterator[Fault]:
    """Environment variables that the container could not start with."""
    model = endpoint.variants[0].model
    for fault in variable_faults(endpoint.options.environment, model=model):
        yield Fault(("environment", *fault.path), fault.message, fault.remedy)


def _gpus(instance: InstanceType) -> str:
    gpu = instance.family.gpu
    if gpu is None:
        return "none"
    return f"one {gpu}" if instance.gpus == 1 else f"{instance.gpus} {gpu}s"
