"""Find the performance that a target's endpoints require, and how to measure it in the source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tritonstack.operations.promotion.performance import PerformanceRequirement
from tritonstack.project.workspace import Workspace
from tritonstack.records.lock_writing import LockChange
from tritonstack.spec.endpoints.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack.spec.environments.promotion import PerformanceObjective, PromotionSpec

_LEAST_S = 60
_ANSWERS = 2_200
"""So many that at least 1,000 remain after the warm-up: a 99th percentile requires them."""


def performance_requirements(
    gates: PromotionSpec, item: LockChange, source: Workspace, target: Workspace
) -> Iterator[PerformanceRequirement]:
    """Yield the objectives of the target's endpoints that will serve an artifact."""
    for name, objective in gates.performance.items():
        endpoint = target.spec.endpoints[name]
        kinds = {variant.instance.name: variant.instance for variant in _answering(endpoint, item.name)}
        for kind, instance in kinds.items():
            if item.key in target.spec.acceptable_targets(instance):
                yield PerformanceRequirement(
                    name,
                    kind,
                    target.spec.real_instances,
                    objective,
                    _measure(source, item.name, kind, objective, real=target.spec.real_instances),
                )


def _measure(source: Workspace, model: str, kind: str, objective: PerformanceObjective, *, real: bool) -> str:
    """Return how to measure a model on an instance type in the source."""
    environment = source.spec.name
    if real and not source.spec.real_instances:
        return (
            f"{environment} is on the local cloud: promote from an environment on AWS, and run `tritonstack "
            "bench ... --record` there"
        )
    for name, endpoint in source.spec.endpoints.items():
        if endpoint.asynchronous is not None:
            continue
        for variant in _answering(endpoint, model):
            if variant.instance.name == kind:
                selected = [
                    *([f"--model {model}"] if isinstance(endpoint, MultiModelEndpoint) else []),
                    *([f"--variant {variant.name}"] if len(_answering(endpoint)) > 1 else []),
                ]
                return _bench(f"{environment} {name}", selected, objective.rate_per_instance, variant.scaling)
    return (
        f"deploy {model} in {environment} on {kind}, then run `tritonstack bench {environment} ... --record`"
    )


def _bench(endpoint: str, selected: Sequence[str], each: float, scaling: Scaling) -> str:
    """Return the command for the lowest number of instances, and what further ones need."""
    lowest = max(1, scaling.lowest)
    rate = each * lowest
    options = [f"--rate {_digits(rate)}", f"--duration {max(_LEAST_S, math.ceil(_ANSWERS / rate))}"]
    command = f"run `tritonstack bench {endpoint} {' '.join([*options, *selected, '--record'])}`"
    if scaling.highest <= lowest:
        return command
    running = "1 instance runs" if lowest == 1 else f"{lowest} instances run"
    more = f"with more of them, up to {scaling.highest}, add {_digits(each)} to the rate for each"
    return f"{command} while {running}; {more}"


def _digits(rate: float) -> str:
    """Return a rate that is not rounded; `g` alone keeps six digits."""
    return f"{rate:.15g}"


def _answering(endpoint: EndpointSpec, model: str | None = None) -> list[Variant]:
    """Return the variants that answer callers, all or those that serve a model."""
    return [
        variant
        for variant in endpoint.variants
        if not variant.shadow
        and (model is None or model in ((variant.model,) if variant.model else endpoint.models))
    ]
