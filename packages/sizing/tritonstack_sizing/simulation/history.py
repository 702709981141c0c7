"""Compare a simulation with what CloudWatch recorded of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

import numpy as np

from tritonstack.base.results import Internal, Key, Rounded, public
from tritonstack.constructs.monitoring.monitored import (
    MICROSECONDS_PER_MS,
    Metric,
    Monitored,
    MonitoredVariant,
    machine_metric,
    request_metric,
)
from tritonstack.operate.shared.aws import metric_query
from tritonstack_sizing.errors import NoMeasurementsError
from tritonstack_sizing.simulation.simulation import ScalingRun

_MINUTE = timedelta(minutes=1)
_LONGEST = timedelta(days=15)
"""CloudWatch keeps datapoints of one minute for 15 days."""


@dataclass(frozen=True)
class RecordedMinute:
    """What CloudWatch has of one minute."""

    requests: float = 0.0
    errors: float = 0.0
    """Answers with a server error."""
    instances: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None


@dataclass(frozen=True)
class BackTest:
    """A simulation beside the recorded minutes of the same load."""

    run: Internal[ScalingRun] = field(repr=False)
    minutes: Annotated[tuple[RecordedMinute, ...], Key("recorded")] = field(repr=False)
    p50_ms: Annotated[float | None, Key("recorded_p50_ms")]
    """The recorded p50 of all minutes with requests, weighted by them."""
    p99_ms: Annotated[float | None, Key("recorded_p99_ms")]

    @public
    def minutes_compared(self) -> int:
        """The number of minutes whose instances are known."""
        return len(self._differences)

    @public
    def instances_within_one(self) -> Annotated[float, Rounded(4)]:
        """The share of minutes in which the instances differ by at most one."""
        return sum(abs(difference) <= 1 for difference in self._differences) / max(1, self.minutes_compared)

    @public
    def instances_mean_difference(self) -> Annotated[float, Rounded(4)]:
        """The mean of simulated minus recorded instances."""
        return sum(self._differences) / max(1, self.minutes_compared)

    @public
    def recorded_instance_hours(self) -> Annotated[float, Rounded(4)]:
        """The recorded instances over time, of the minutes in which they are known."""
        return sum(minute.instances or 0.0 for minute in self.minutes) / 60

    @public
    def p99_ratio(self) -> Annotated[float | None, Rounded(4)]:
        """Simulated p99 of a minute relative to the recorded one: the median over the minutes."""
        ratios = [
            simulated.p99_ms / recorded.p99_ms
            for simulated, recorded in zip(self.run.slices, self.minutes, strict=True)
            if simulated.p99_ms and recorded.p99_ms
        ]
        return float(np.median(ratios)) if ratios else None

    @property
    def _differences(self) -> list[float]:
        return [
            simulated.in_service - recorded.instances
            for simulated, recorded in zip(self.run.slices, self.minutes, strict=True)
            if recorded.instances is not None
        ]

    @public
    def recorded_errors(self) -> int:
        """The recorded answers with a server error."""
        return round(sum(minute.errors for minute in self.minutes))


def read_history(
    cloudwatch: Any, monitored: Monitored, variant: MonitoredVariant, *, begin: datetime, end: datetime
) -> tuple[RecordedMinute, ...]:
    """Return the recorded minutes of a variant."""
    if end - begin > _LONGEST:
        raise NoMeasurementsError(
            f"the period has {(end - begin).days} days, more than the {_LONGEST.days} for which CloudWatch "
            "keeps minutes",
            remedy="name a shorter period",
        )
    latency = request_metric(monitored, variant, "ModelLatency")
    queries = {
        "requests": (request_metric(monitored, variant, "Invocations"), "Sum"),
        "errors": (request_metric(monitored, variant, "Invocation5XXErrors"), "Sum"),
        "shares": (
            request_metric(
                monitored, variant, "InvocationsPerCopy" if monitored.component else "InvocationsPerInstance"
            ),
            "Sum",
        ),
        "machines": (machine_metric(monitored, variant, "CPUUtilization"), "SampleCount"),
        "p50": (latency, "p50"),
        "p99": (latency, "p99"),
    }
    values = _read(cloudwatch, queries, begin, end)
    count = round((end - begin) / _MINUTE)
    minutes = tuple(_minute(values, begin + number * _MINUTE, monitored) for number in range(count))
    if not any(minute.requests for minute in minutes):
        raise NoMeasurementsError(
            f"CloudWatch has no requests to {monitored.endpoint_name} ({variant.name}) from "
            f"{begin.isoformat()} to {end.isoformat()}",
            remedy="name a period of the last 15 days with requests; times are in UTC unless they name an "
            "offset",
        )
    return minutes


def back_test(run: ScalingRun, minutes: Sequence[RecordedMinute]) -> BackTest:
    """Compare a simulation, in slices of a minute, with the recorded minutes."""
    return BackTest(
        run,
        tuple(minutes),
        p50_ms=_weighted(minutes, [minute.p50_ms for minute in minutes]),
        p99_ms=_weighted(minutes, [minute.p99_ms for minute in minutes]),
    )


def _weighted(minutes: Sequence[RecordedMinute], values: Sequence[float | None]) -> float | None:
    pairs = [
        (minute.requests, value) for minute, value in zip(minutes, values, strict=True) if value is not None
    ]
    total = sum(weight for weight, _ in pairs)
    return round(sum(weight * value for weight, value in pairs) / total, 3) if total else None


def _read(
    cloudwatch: Any, queries: Mapping[str, tuple[Metric, str]], begin: datetime, end: datetime
) -> dict[str, dict[datetime, float]]:
    requests = [
        metric_query(name, metric.name, dict(metric.dimensions), statistic, 60, namespace=metric.namespace)
        for name, (metric, statistic) in queries.items()
    ]
    values: dict[str, dict[datetime, float]] = {name: {} for name in queries}
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=requests, StartTime=begin, EndTime=end
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            pairs = zip(result["Timestamps"], result["Values"], strict=True)
            values[result["Id"]] |= {when.replace(second=0, microsecond=0): value for when, value in pairs}
    return values


def _minute(
    values: Mapping[str, Mapping[datetime, float]], when: datetime, monitored: Monitored
) -> RecordedMinute:
    requests, shares = values["requests"].get(when, 0.0), values["shares"].get(when, 0.0)
    instances: float | None = None
    if shares > 0:
        # Each request publishes one divided by the number of instances.
        instances = requests / shares
    elif not monitored.component:
        instances = values["machines"].get(when)
    return RecordedMinute(
        requests=requests,
        errors=values["errors"].get(when, 0.0),
        instances=None if instances is None else round(instances, 2),
        p50_ms=_milliseconds(values["p50"].get(when)),
        p99_ms=_milliseconds(values["p99"].get(when)),
    )


def _milliseconds(microseconds: float | None) -> float | None:
    return None if microseconds is None else round(microseconds / MICROSECONDS_PER_MS, 3)
