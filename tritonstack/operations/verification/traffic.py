"""Read recent endpoint traffic from CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tritonstack.operations.aws import Cloud
from tritonstack.operations.verification.expectations import ExpectedEndpoint

WINDOW = timedelta(minutes=15)
_MICROSECONDS_PER_MS = 1000
_QUERIES_A_CALL = 500
_PERIOD_S = 900

_COUNTS = {
    "requests": "Invocations",
    "server_errors": "Invocation5XXErrors",
    "client_errors": "Invocation4XXErrors",
}
_LATENCY = "ModelLatency"


@dataclass(frozen=True)
class Traffic:
    """The traffic of one endpoint."""

    requests: int = 0
    server_errors: int = 0
    client_errors: int = 0
    p99_ms: float | None = None
    """The slowest variant; None without answers."""


@dataclass(frozen=True)
class _Query:
    """One metric of a variant or inference component."""

    endpoint: str
    figure: str
    metric: str
    dimensions: Mapping[str, str]

    def as_asked(self, number: int) -> dict[str, Any]:
        """Return the metric query."""
        return {
            "Id": f"q{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/SageMaker",
                    "MetricName": self.metric,
                    "Dimensions": [{"Name": key, "Value": item} for key, item in self.dimensions.items()],
                },
                "Period": _PERIOD_S,
                "Stat": "p99" if self.figure == "p99_ms" else "Sum",
            },
        }


def recent_traffic(
    cloud: Cloud, endpoints: Sequence[ExpectedEndpoint], *, now: datetime
) -> dict[str, Traffic]:
    """Return recent traffic by endpoint name."""
    client = cloud.client("cloudwatch")
    queries = [query for endpoint in endpoints for query in _queries(endpoint)]
    values: dict[str, dict[str, float]] = {endpoint.name: {} for endpoint in endpoints}
    for begin in range(0, len(queries), _QUERIES_A_CALL):
        some = queries[begin : begin + _QUERIES_A_CALL]
        answer = client.get_metric_data(
            MetricDataQueries=[query.as_asked(number) for number, query in enumerate(some)],
            StartTime=now - WINDOW,
            EndTime=now,
        )
        series = {item["Id"]: item["Values"] for item in answer["MetricDataResults"]}
        for number, query in enumerate(some):
            _add(values[query.endpoint], query, series.get(f"q{number}", ()))
    return {name: _traffic(figures) for name, figures in values.items()}


def _queries(endpoint: ExpectedEndpoint) -> Iterator[_Query]:
    for dimensions in request_dimensions(endpoint):
        for figure, metric in {**_COUNTS, "p99_ms": _LATENCY}.items():
            yield _Query(endpoint.name, figure, metric, dimensions)


def request_dimensions(endpoint: ExpectedEndpoint) -> list[dict[str, str]]:
    """Return the request dimensions: the inference component, or else the production variants."""
    if endpoint.component is not None:
        return [{"InferenceComponentName": str(endpoint.component["InferenceComponentName"])}]
    return [
        {"EndpointName": endpoint.name, "VariantName": variant}
        for variant in endpoint.variants
        if variant not in endpoint.shadows
    ]


def _add(figures: dict[str, float], query: _Query, values: Sequence[float]) -> None:
    """Merge two CloudWatch periods: sum counts, take the slowest latency."""
    if not values:
        return
    if query.figure == "p99_ms":
        figures["p99_ms"] = max(figures.get("p99_ms", 0.0), *values)
    else:
        figures[query.figure] = figures.get(query.figure, 0.0) + sum(values)


def _traffic(figures: Mapping[str, float]) -> Traffic:
    p99 = figures.get("p99_ms")
    return Traffic(
        **{name: round(figures.get(name, 0.0)) for name in _COUNTS},
        p99_ms=None if p99 is None else p99 / _MICROSECONDS_PER_MS,
    )
