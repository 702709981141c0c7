"""Publish SageMaker's request metrics of an endpoint.

Equal values are aggregated with their count, so that a request costs a few additions: counts have few
distinct values, and latencies are rounded to three digits.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tritonstack_local.cloudwatch.metrics import Datum, Metrics
from tritonstack_local.identity.scope import Scope

NAMESPACE = "AWS/SageMaker"
_PUBLISH_S = 0.5
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class MeasuredVariant:
    """The variant that metrics belong to."""

    scope: Scope
    endpoint: str
    variant: str

    @property
    def dimensions(self) -> dict[str, str]:
        """Return its CloudWatch dimensions."""
        return {"EndpointName": self.endpoint, "VariantName": self.variant}


@dataclass(frozen=True)
class Exchange:
    """One request and its result."""

    status: int
    """The model's status, or the caller's status without a response of the model."""
    model_s: float
    overhead_s: float
    instances: int
    """The variant's number of instances."""
    concurrent: int
    """The number of concurrent requests."""


class RequestMetrics:
    """Collects exchanges and publishes them twice per second."""

    def __init__(self, *, metrics: Metrics) -> None:
        self._metrics = metrics
        self._values: Counter[tuple[MeasuredVariant, str, float, str]] = Counter()
        self._busiest: dict[MeasuredVariant, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="request metrics", daemon=True)
        self._thread.start()

    def note(self, watched: MeasuredVariant, exchange: Exchange) -> None:
        """Count one request."""
        status = exchange.status
        values = (
            ("Invocations", 1.0, "None"),
            ("InvocationsPerInstance", 1 / max(1, exchange.instances), "None"),
            ("Invocation4XXErrors", float(400 <= status < 500), "None"),
            ("Invocation5XXErrors", float(status >= 500), "None"),
            ("InvocationModelErrors", float(not 200 <= status < 300), "None"),
            ("ModelLatency", _rounded(exchange.model_s), "Microseconds"),
            ("OverheadLatency", _rounded(exchange.overhead_s), "Microseconds"),
        )
        with self._lock:
            for name, value, unit in values:
                self._values[watched, name, value, unit] += 1
            self._busiest[watched] = max(self._busiest.get(watched, 0), exchange.concurrent)

    def close(self) -> None:
        """Stop; unpublished values are dropped."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_PUBLISH_S):
            self.publish()

    def publish(self) -> None:
        """Publish collected values."""
        with self._lock:
            values, self._values = self._values, Counter()
            busiest, self._busiest = self._busiest, {}
        for (watched, name, value, unit), count in values.items():
            datum = Datum(NAMESPACE, name, watched.dimensions, value, unit, count=count)
            self._metrics.put(watched.scope, [datum])
        for watched, requests in busiest.items():
            datum = Datum(NAMESPACE, "ConcurrentRequestsPerModel", watched.dimensions, float(requests))
            self._metrics.put(watched.scope, [datum])


class Stopwatch:
    """Separates a request's model latency from its overhead."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.model_s = 0.0

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Count the time within the context as model latency."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.model_s = time.monotonic() - began

    def overhead_s(self) -> float:
        """Return the overhead so far."""
        return time.monotonic() - self._began - self.model_s


def _rounded(seconds: float) -> float:
    return float(f"{seconds * _MICROSECONDS:.3g}")
