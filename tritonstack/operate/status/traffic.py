"""Read recent endpoint traffic from CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tritonstack.operate.shared.aws import Cloud, metric_query
from tritonstack.operate.verify.expectations import ExpectedEndpoint

WINDOW = timedelta(minutes=15)
_MICROSECONDS_PER_MS = 1000
_QUERIES_A_CALL = 500
_PERIOD_S = 900

_METRICS = {
    "requests": "Invocations",
    "server_errors": "Invocation5XXErrors",
    "client_errors": "Invocation4XXErrors",
    "p99_ms": "ModelLatency",
}
"""Metrics by figure."""
_STATISTICS = {"p99_ms": "p99"}
"""Of figures that are not sums."""


@dataclass(frozen=True)
class Traffic:
    """The traffic of one endpoint."""

    requests: int = 0
    server_errors: int = 0
    client_errors: int = 0
    p99_ms: float | None = None
    """The slowest variant; None without answers."""


def recent_traffic(
    cloud: Cloud, endpoints: Sequence[ExpectedEndpoint], *, now: datetime
) -> dict[str, Traffic]:
    """Return recent traffic by endpoint name."""
    client = cloud.client("cloudwatch")
    queries = [
        (endpoint.name, figure, metric, dimensions)
        for endpoint in endpoints
        for dimensions in request_dimensions(endpoint)
        for figure, metric in _METRICS.items()
    ]
    values: dict[str, dict[str, float]] = {endpoint.name: {} for endpoint in endpoints}
    for begin in range(0, len(queries), _QUERIES_A_CALL):
        some = queries[begin : begin + _QUERIES_A_CALL]
        answer = client.get_metric_data(
            MetricDataQueries=[
                metric_query(f"q{number}", metric, dimensions, _STATISTICS.get(figure, "Sum"), _PERIOD_S)
                for number, (_, figure, metric, dimensions) in enumerate(some)
            ],
            StartTime=now - WINDOW,
            EndTime=now,
        )
        series = {item["Id"]: item["Values"] for item in answer["MetricDataResults"]}
        for number, (name, figure, _, _) in enumerate(some):
            _add(values[name], figure, series.get(f"q{number}", ()))
    return {name: _traffic(figures) for name, figures in values.items()}


def request_dimensions(endpoint: ExpectedEndpoint) -> list[dict[str, str]]:
    """Return the request dimensions: the inference component, or else the production variants."""
    if endpoint.component is not None:
        return [{"InferenceComponentName": str(endpoint.component["InferenceComponentName"])}]
    return [
        {"EndpointName": endpoint.name, "VariantName": variant}
        for variant in endpoint.variants
        if variant not in endpoint.shadows
    ]


def _add(figures: dict[str, float], figure: str, values: Sequence[float]) -> None:
    """Merge two CloudWatch periods: sum counts, take the slowest latency."""
    if values:
        merge = max if figure == "p99_ms" else sum
        figures[figure] = merge((figures.get(figure, 0.0), *values))


def _traffic(figures: Mapping[str, float]) -> Traffic:
    counts = {name: round(value) for name, value in figures.items() if name != "p99_ms"}
    p99 = figures.get("p99_ms")
    return Traffic(**counts, p99_ms=None if p99 is None else p99 / _MICROSECONDS_PER_MS)
