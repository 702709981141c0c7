"""The metrics that SageMaker publishes of an endpoint, each under the namespace and dimensions that it has.

Requests are counted by variant, or by inference component where there is one; machines by variant; the
queue of an asynchronous endpoint by endpoint. An asynchronous endpoint publishes neither Invocations nor
OverheadLatency.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.constructs.monitoring.monitored import Watched, WatchedVariant

REQUESTS = "AWS/SageMaker"
MACHINES = "/aws/sagemaker/Endpoints"
COPIES = "/aws/sagemaker/InferenceComponents"

MICROSECONDS_PER_MS = 1000
"""SageMaker measures latencies in microseconds."""


@dataclass(frozen=True)
class Metric:
    """One metric of CloudWatch."""

    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Series:
    """One metric by one statistic."""

    metric: Metric
    statistic: str


def request_metric(watched: Watched, variant: WatchedVariant, name: str) -> Metric:
    """A metric of the requests that a variant, or the endpoint's inference component, answers."""
    if watched.component:
        return Metric(REQUESTS, name, (("InferenceComponentName", watched.component),))
    return Metric(REQUESTS, name, _variant(watched, variant))


def machine_metric(watched: Watched, variant: WatchedVariant, name: str) -> Metric:
    """A metric that each of a variant's machines publishes once a minute."""
    return Metric(MACHINES, name, _variant(watched, variant))


def copy_metric(component: str, name: str) -> Metric:
    """A metric that each copy of an inference component publishes once a minute."""
    return Metric(COPIES, name, (("InferenceComponentName", component),))


def queue_metric(watched: Watched, name: str) -> Metric:
    """A metric of the queue of an asynchronous endpoint."""
    return Metric(REQUESTS, name, (("EndpointName", watched.endpoint_name),))


def traffic(watched: Watched, variant: WatchedVariant) -> Series:
    """How many requests reach a variant."""
    name = "InvocationsProcessed" if watched.asynchronous else "Invocations"
    return Series(request_metric(watched, variant, name), "Sum")


def _variant(watched: Watched, variant: WatchedVariant) -> tuple[tuple[str, str], ...]:
    return (("EndpointName", watched.endpoint_name), ("VariantName", variant.name))
