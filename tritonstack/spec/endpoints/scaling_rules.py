"""Rules for scaling: metrics and minimums, given the endpoint's mode and hardware."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import InstanceTypeError, ScalingError, UnavailableOptionError
from tritonstack.base.yaml import FieldPath, Violation
from tritonstack.spec.endpoints.endpoint_rules import RuledEndpoint
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack.spec.endpoints.variants import Variant

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
