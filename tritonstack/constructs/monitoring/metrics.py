"""The CloudWatch metrics of an endpoint, with their namespaces and dimensions.

Request metrics have a variant, or an inference component if there is one; instance metrics have a variant;
queue metrics have an endpoint. An asynchronous endpoint publishes neither Invocations nor OverheadLatency.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant

REQUESTS = "AWS/SageMaker"
MACHINES = "/aws/sagemaker/Endpoints"
COPIES = "/aws/sagemaker/InferenceComponents"

MICROSECONDS_PER_MS = 1000
"""SageMaker measures latencies in microseconds."""


@dataclass(frozen=True)
class Metric:
    """One CloudWatch metric."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Series:
    """One metric and a statistic."""

    metric: Metric
    statistic: str


def request_metric(monitored: Monitored, variant: MonitoredVariant, name: str) -> Metric:
    """Return a metric of the requests to a variant or to the endpoint's inference component."""
    if monitored.component:
        return Metric(REQUESTS, name, (("InferenceComponentName", monitored.component),))
    return Metric(REQUESTS, name, _variant(monitored, variant))


def machine_metric(monitored: Monitored, variant: MonitoredVariant, name: str) -> Metric:
    """Return a metric that each instance of a variant publishes once per minute."""
    return Metric(MACHINES, name, _variant(monitored, variant))


def copy_metric(component: str, name: str) -> Metric:
    """Return a metric that each copy of an inference component publishes once per minute."""
    return Metric(COPIES, name, (("InferenceComponentName", component),))


def queue_metric(monitored: Monitored, name: str) -> Metric:
    """Return a queue metric of an asynchronous endpoint."""
    return Metric(REQUESTS, name, (("EndpointName", monitored.endpoint_name),))


def traffic(monitored: Monitored, variant: MonitoredVariant) -> Series:
    """Return the number of requests to a variant."""
    name = "InvocationsProcessed" if monitored.asynchronous else "Invocations"
    return Series(request_metric(monitored, variant, name), "Sum")


def _variant(monitored: Monitored, variant: MonitoredVariant) -> tuple[tuple[str, str], ...]:
    return (("EndpointName", monitored.endpoint_name), ("VariantName", variant.name))
