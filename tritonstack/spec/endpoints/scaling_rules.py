"""What an endpoint can scale by, and how far down, given its mode and its machines."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.documents import Fault, FieldPath
from tritonstack.spec.endpoints.endpoint_rules import RuledEndpoint
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack.spec.endpoints.variants import Variant

_ANSWERED_AT_ONCE = ("invocations_per_instance", "concurrent_requests_per_model")
"""Measures of which asynchronous endpoints publish no metric: a policy on one would wait for ever."""
_COMPONENT_MEASURES = "components.invocations_per_copy or components.concurrent_requests_per_copy"


def scaling_faults(endpoint: RuledEndpoint) -> Iterator[Fault]:
    """Limits and measures that the kind of endpoint or its machines do not have."""
    for variant in endpoint.variants:
        path = endpoint.scaling_path(variant)
        if not endpoint.options.scales_to_zero:
            yield from _at_zero(variant.scaling, path)
        for measure, field in _measures(variant.scaling):
            yield from _without_measure(endpoint, variant, measure, (*path, *field))
        yield from _burstable(endpoint, variant)
    if endpoint.options.alarms.backlog is not None and endpoint.options.asynchronous is None:
        yield Fault(
            ("alarms", "backlog"),
            "only asynchronous endpoints have a backlog",
            "remove it, or add `asynchronous: {}`",
        )


def _at_zero(scaling: Scaling, path: FieldPath) -> Iterator[Fault]:
    places: list[FieldPath] = [("min_instances",)] if scaling.min_instances == 0 else []
    places += [("schedules", name, "min") for name, night in scaling.schedules.items() if night.min == 0]
    for place in places:
        yield Fault(
            (*path, *place),
            "an endpoint that answers at once keeps a machine at all times",
            "write 1 or more; only asynchronous endpoints and inference components go down to 0",
        )


def _measures(scaling: Scaling) -> Iterator[tuple[str, FieldPath]]:
    """What the number of machines follows, and where the file says so."""
    for measure in scaling.measures:
        yield measure, (measure,)
    if scaling.steps:
        yield scaling.steps.metric, ("steps", "metric")


def _without_measure(
    endpoint: RuledEndpoint, variant: Variant, measure: str, path: FieldPath
) -> Iterator[Fault]:
    if endpoint.options.components:
        yield Fault(
            path,
            "inference components do not follow the measures of machines",
            f"remove it and set {_COMPONENT_MEASURES}",
        )
    elif measure in _ANSWERED_AT_ONCE and endpoint.options.asynchronous:
        yield Fault(
            path,
            "SageMaker publishes no such metric of asynchronous endpoints, so nothing would ever scale",
            "write backlog_per_instance instead",
        )
    elif measure == "backlog_per_instance" and not endpoint.options.asynchronous:
        yield Fault(
            path,
            "only asynchronous endpoints have a backlog",
            "remove it and use invocations_per_instance, or add `asynchronous: {}`",
        )
    elif measure == "gpu_utilization_percent" and not variant.instance.gpus:
        yield Fault(
            path,
            f"{variant.instance.name} has no GPU",
            "remove it and use invocations_per_instance, or choose an instance type with a GPU",
        )


def _burstable(endpoint: RuledEndpoint, variant: Variant) -> Iterator[Fault]:
    scaled = variant.scaling.varies or endpoint.options.components is not None
    if variant.instance.family.burstable and scaled:
        yield Fault(
            endpoint.instance_path(variant),
            f"{variant.instance.name} is a burstable type, and SageMaker does not scale those",
            "choose a type such as ml.m5.large, or fix the number: scaling: {min_instances: 1, "
            "max_instances: 1}",
        )
