"""Publish metrics of the services implemented here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tritonstack_local.cloudwatch.statistics import Summary
from tritonstack_local.cloudwatch.store import METRICS, MetricKey
from tritonstack_local.identity.scope import Scope
from tritonstack_local.moto_patches import metrics


@dataclass(frozen=True)
class Datum:
    """A measured value with the number of times it was measured."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    value: float
    unit: str = "None"
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    count: int = 1
    """Number of measurements."""

    @property
    def key(self) -> MetricKey:
        """The metric it belongs to."""
        return MetricKey(self.namespace, self.name, frozenset(self.dimensions.items()))


class Metrics:
    """Publishes values to this process's metric store. Thread-safe."""

    def __init__(self) -> None:
        metrics.apply()

    def put(self, scope: Scope, data: Iterable[Datum]) -> None:
        """Publish values."""
        for datum in data:
            values = Summary()
            values.add(datum.value, datum.count)
            METRICS.put(scope, datum.key, datum.unit, values, at=datum.time.timestamp())
