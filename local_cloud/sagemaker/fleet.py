"""The deployments of an endpoint's variants, and which of them the next request goes to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from local_cloud.sagemaker.deployment import Deployment
from local_cloud.sagemaker.records import VariantRecord


def weights_of(variants: Iterable[VariantRecord]) -> dict[str, float]:
    """How traffic is to be split."""
    return {variant.name: variant.capacity.weight for variant in variants}


class Fleet:
    """One deployment for each variant. Threads may call it at once.

    Requests follow the weights as evenly as can be: each choice goes to the variant that is furthest behind
    its share, so that at 9 to 1 exactly one of ten goes to the lighter variant.
    """

    def __init__(self, deployments: Iterable[Deployment], *, weights: Mapping[str, float]) -> None:
        self._deployments = {deployment.plan.variant: deployment for deployment in deployments}
        self._owed = dict.fromkeys(self._deployments, 0.0)
        self._weights = dict(weights)
        self._lock = threading.Lock()

    @property
    def deployments(self) -> list[Deployment]:
        """Every deployment."""
        return list(self._deployments.values())

    def choose(self, variant: str | None) -> Deployment | None:
        """Give the named variant's deployment, or the one whose turn it is; None if there is no such."""
        with self._lock:
            return self._deployments.get(variant or self._next())

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Split traffic differently from now on; weights of variants that have gone meanwhile say nothing."""
        with self._lock:
            self._weights |= {name: weight for name, weight in weights.items() if name in self._weights}
            self._owed = dict.fromkeys(self._owed, 0.0)

    def put_in_place(self, successor: Deployment, *, of: Deployment) -> bool:
        """Put a deployment where another one serves; tell whether that one still served."""
        with self._lock:
            variant = of.plan.variant
            if self._deployments.get(variant) is not of:
                return False
            self._deployments[variant] = successor
            return True

    def _next(self) -> str:
        """Smooth weighted round robin. Where no variant has a weight, all have the same."""
        weights = self._weights if sum(self._weights.values()) else dict.fromkeys(self._weights, 1.0)
        for name, weight in weights.items():
            self._owed[name] += weight
        chosen = max((name for name in weights if weights[name]), key=self._owed.__getitem__)
        self._owed[chosen] -= sum(weights.values())
        return chosen
