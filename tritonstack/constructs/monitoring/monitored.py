"""What scaling, alarms and dashboards have to know of an endpoint: its names in metrics, and its machines."""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.reference.hardware import InstanceType
from tritonstack.spec.endpoints.endpoint import MultiModelEndpoint
from tritonstack.spec.endpoints.scaling import Scaling
from tritonstack.spec.environments.environment import EnvironmentSpec


@dataclass(frozen=True)
class WatchedVariant:
    """One variant, as CloudWatch and Application Auto Scaling name it."""

    name: str
    instance: InstanceType
    scaling: Scaling
    shadow: bool = False
    price_per_hour: float | None = None
    """What an hour of one machine costs, where the environment's file says so."""


@dataclass(frozen=True)
class Watched:
    """One endpoint, as CloudWatch and Application Auto Scaling name it."""

    endpoint_name: str
    variants: tuple[WatchedVariant, ...]
    """All variants, the main one first and a shadow last."""
    multi_model: bool = False
    asynchronous: bool = False
    """Whether requests wait in a queue: SageMaker then publishes other metrics of them."""
    component: str | None = None
    """The name of its inference component, where it has one: invocations are counted under that."""
    log_group_name: str = ""
    """Where its containers write."""

    @property
    def main(self) -> WatchedVariant:
        """The variant that every endpoint has."""
        return self.variants[0]

    @property
    def production(self) -> tuple[WatchedVariant, ...]:
        """The variants whose answers callers get."""
        return tuple(variant for variant in self.variants if not variant.shadow)

    @property
    def shadow(self) -> WatchedVariant | None:
        """The variant that gets copies of requests, if there is one."""
        return next((variant for variant in self.variants if variant.shadow), None)


def watched_endpoint(environment: EnvironmentSpec, name: str) -> Watched:
    """The endpoint `name` of an environment, built or not."""
    endpoint = environment.endpoints[name]
    full = environment.endpoint_name(name)
    component = naming.component_name(full) if endpoint.components else None
    return Watched(
        endpoint_name=full,
        variants=tuple(
            WatchedVariant(
                name=variant.name,
                instance=variant.instance,
                scaling=variant.scaling,
                shadow=variant.shadow,
                price_per_hour=environment.prices.get(variant.instance.name),
            )
            for variant in endpoint.variants
        ),
        multi_model=isinstance(endpoint, MultiModelEndpoint),
        asynchronous=endpoint.asynchronous is not None,
        component=component,
        log_group_name=(
            naming.component_log_group(component) if component else naming.endpoint_log_group(full)
        ),
    )
