"""Find the performance that a target's endpoints require, and how to measure it in the source."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tritonstack.operations.promotion.performance import PerformanceRequirement
from tritonstack.operations.promotion.plans import Artifact
from tritonstack.project.workspace import Workspace
from tritonstack.spec.endpoints.endpoint import EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.spec.environments.promotion import PerformanceObjective, PromotionSpec

_LEAST_S = 60
_ANSWERS = 2_200
"""So many that at least 1,000 remain after the warm-up: a 99th percentile requires them."""


def performance_requirements(
    gates: PromotionSpec, item: Artifact, source: Workspace, target: Workspace
) -> Iterator[PerformanceRequirement]:
    """Yield the objectives of the target's endpoints that will serve an artifact."""
    for name, objective in gates.performance.items():
        endpoint = target.spec.endpoints[name]
        kinds = {variant.instance.name: variant.instance for variant in _answering(endpoint, item.name)}
        for kind, instance in kinds.items():
            if item.key in target.spec.acceptable_targets(instance):
                yield PerformanceRequirement(
                    name, kind, objective, _measure(source, item.name, kind, objective)
                )


def _measure(source: Workspace, model: str, kind: str, objective: PerformanceObjective) -> str:
    """Return how to measure a model on an instance type in the source."""
    environment = source.spec.name
    for name, endpoint in source.spec.endpoints.items():
        if endpoint.asynchronous is not None:
            continue
        for variant in _answering(endpoint, model):
            if variant.instance.name != kind:
                continue
            rate = objective.rate_per_instance * max(1, variant.scaling.lowest)
            options = [
                f"--rate {rate:g}",
                f"--duration {max(_LEAST_S, math.ceil(_ANSWERS / rate))}",
                *([f"--model {model}"] if isinstance(endpoint, MultiModelEndpoint) else []),
                *([f"--variant {variant.name}"] if len(_answering(endpoint)) > 1 else []),
                "--record",
            ]
            return f"run `tritonstack bench {environment} {name} {' '.join(options)}`"
    return (
        f"deploy {model} in {environment} on {kind}, then run `tritonstack bench {environment} ... --record`"
    )


def _answering(endpoint: EndpointSpec, model: str | None = None) -> list[Variant]:
    """Return the variants that answer callers, all or those that serve a model."""
    return [
        variant
        for variant in endpoint.variants
        if not variant.shadow
        and (model is None or model in ((variant.model,) if variant.model else endpoint.models))
    ]
