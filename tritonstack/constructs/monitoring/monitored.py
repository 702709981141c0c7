"""What scaling, alarms, and dashboards need of an endpoint: its metric dimensions and instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

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


# The CloudWatch metrics of an endpoint, with their namespaces and dimensions.
#
# Request metrics have a variant, or an inference component if there is one; instance metrics have a variant;
# queue metrics have an endpoint. An asynchronous endpoint publishes neither Invocations nor OverheadLatency.


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


# Metrics that count Triton's errors in an endpoint's log. One log line is one event. Triton's error lines
# begin with E, the month, and the day:
# `E1121 10:00:00.123456 2 model_lifecycle.cc:642] "failed to load 'bert' version 1: …"`.


_NAMESPACE = "Tritonstack"

_ERROR = r"^E\d\d\d\d\s"
_MESSAGE = rf"{_ERROR}.+\]\s\W*"

_OUT_OF_MEMORY = (
    "out of memory",
    "Out of memory",
    "Out Of Memory",
    "OutOfMemory",
    "OUT_OF_MEMORY",
    "MemoryError",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Failed to allocate memory",
    "failed to allocate memory",
    "No space left on device",
)
"""The texts with which Triton reports a lack of memory, if they have no other meaning."""


class LogCount(StrEnum):
    """What is counted in the log; also the end of the metric's name."""

    ERRORS = "TritonErrors"
    FAILED_LOADS = "TritonFailedLoads"
    OUT_OF_MEMORY = "TritonOutOfMemory"
    UNHEALTHY_STUBS = "TritonUnhealthyStubs"


FILTER_PATTERNS: dict[LogCount, str] = {
    # On instances without a GPU, every server logs one startup error: CudaDriverHelper has not been
    # initialized. Filter patterns have no negation, of terms or of character sets: each alternative ends one
    # letter later and lists the letters that may be there.
    LogCount.ERRORS: "%"
    + "|".join(
        _MESSAGE + start for start in ("[ABD-Za-z0-9_]", "C[A-Za-tv-z0-9_]", "Cu[A-Za-ce-z0-9_]", r"Cu?\W")
    )
    + "%",
    LogCount.FAILED_LOADS: rf"%{_ERROR}.+failed\sto\sload%",
    LogCount.OUT_OF_MEMORY: " ".join(f'?"{text}"' for text in _OUT_OF_MEMORY),
    LogCount.UNHEALTHY_STUBS: '"is not healthy"',
}
"""Return the filter pattern for CloudWatch Logs."""

ERROR_LINES = r"""fields @timestamp, @logStream, @message
| filter @message like /^E\d{4} / and @message not like /CudaDriverHelper/
| sort @timestamp desc
| limit 50"""
"""Return the same errors as a CloudWatch Logs Insights query."""


def log_count(monitored: Monitored, count: LogCount) -> Series:
    """Return the count of a message in an endpoint's log.

    The endpoint is part of the namespace: only metrics without dimensions can default to 0.
    """
    return Series(Metric(f"{_NAMESPACE}/{monitored.endpoint_name}", count.value), "Sum")
