"""What scaling, alarms, and dashboards need of an endpoint: its metric dimensions and instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint, ServingOptions
from tritonstack.files.endpoint.scaling import Scaling
from tritonstack.files.environment.environment import EnvironmentSpec


@dataclass(frozen=True)
class MonitoredVariant:
    """One variant, as CloudWatch and Application Auto Scaling identify it."""

    name: str
    instance: InstanceType
    scaling: Scaling
    shadow: bool = False
    price_per_hour: float | None = None
    """Price per instance-hour from the environment's file, if given."""


@dataclass(frozen=True)
class Monitored:
    """One endpoint, as CloudWatch and Application Auto Scaling identify it."""

    endpoint_name: str
    variants: tuple[MonitoredVariant, ...]
    """All variants: the main one first, a shadow last."""
    multi_model: bool = False
    asynchronous: bool = False
    """Whether requests are queued: SageMaker then publishes other request metrics."""
    component: str | None = None
    """The name of its inference component, if any, which counts the invocations."""
    log_group_name: str = ""
    """The log group of its containers."""

    @property
    def main(self) -> MonitoredVariant:
        """Return the main variant, which every endpoint has."""
        return self.variants[0]

    @property
    def production(self) -> tuple[MonitoredVariant, ...]:
        """Return the variants whose answers callers receive."""
        return tuple(variant for variant in self.variants if not variant.shadow)

    @property
    def shadow(self) -> MonitoredVariant | None:
        """Return the shadow variant, if any."""
        return next((variant for variant in self.variants if variant.shadow), None)


def monitored(
    endpoint_name: str, variants: Iterable[MonitoredVariant], *, options: ServingOptions, multi_model: bool
) -> Monitored:
    """Return an endpoint with these variants and options."""
    component = naming.component_name(endpoint_name) if options.components else None
    return Monitored(
        endpoint_name,
        tuple(variants),
        multi_model=multi_model,
        asynchronous=options.asynchronous is not None,
        component=component,
        log_group_name=(
            naming.component_log_group(component) if component else naming.endpoint_log_group(endpoint_name)
        ),
    )


def monitored_endpoint(environment: EnvironmentSpec, name: str) -> Monitored:
    """Return the endpoint `name` of an environment, whether built or not."""
    endpoint, prices = environment.endpoints[name], environment.prices
    return monitored(
        environment.endpoint_name(name),
        (
            MonitoredVariant(
                variant.name,
                variant.instance,
                variant.scaling,
                shadow=variant.shadow,
                price_per_hour=prices.get(variant.instance.name),
            )
            for variant in endpoint.variants
        ),
        options=endpoint,
        multi_model=isinstance(endpoint, MultiModelEndpoint),
    )
