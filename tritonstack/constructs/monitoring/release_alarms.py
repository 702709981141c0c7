"""Define the alarms that roll back an update in parts: canary, linear, or rolling.

SageMaker's metrics do not separate the old instances from the new ones, but their distributions do. A bad
release fails or slows its own share of the requests, and the old instances answer the others in time. An
overload affects all instances: requests wait, and those that exceed a queue limit are rejected. The alarms
ignore such minutes. They evaluate minutes, so that the two minutes in which an overload begins and
ends, with good answers beside bad ones, roll back nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import AlarmPlan, endpoint_alarms
from tritonstack.constructs.monitoring.metrics import (
    MICROSECONDS_PER_MS,
    Series,
    request_metric,
    traffic,
)
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId, AllAtOnce, Canary, Linear, Rolling

LEAST_ANSWERED = 0.05
"""Share of requests that are answered in time if the old instances work; in an overload, none are."""
MOST_FAST_PERCENT = 99
"""In an overload, more requests than the rest wait in a queue. If fewer do, errors are not rejections."""
BROKEN_MS = 45_000
"""Instances with a response time like this are broken if others answer in time; without queue limits, all
requests of an overload wait as long."""
LEAST_FAST_PERCENT = 5
_MINUTES, _BAD_MINUTES = 5, 3
_COMPARED: Mapping[AlarmId, str] = MappingProxyType(
    {"latency-p99": "slowest", "server-errors": "failed", "client-errors": "rejected"}
)
"""Alarms that an overload triggers, each with the key of its value."""


def compares_instances(rollout: AllAtOnce | Canary | Linear | Rolling, *, asynchronous: bool) -> bool:
    """Return whether old instances answer during an update; an asynchronous endpoint has its own queue."""
    return not isinstance(rollout, AllAtOnce) and not asynchronous


def release_alarms(monitored: Monitored, alarms: Alarms, ids: Collection[AlarmId]) -> Iterator[AlarmPlan]:
    """Yield the alarms of an update in parts that replace the endpoint's own alarms of these kinds."""
    compared = {
        naming.alarm_name(monitored.endpoint_name, variant.name, alarm_id): (variant, alarm_id)
        for variant in monitored.production
        for alarm_id in _COMPARED
        if alarm_id in ids
    }
    for alarm in endpoint_alarms(monitored, alarms):
        if alarm.name in compared:
            variant, alarm_id = compared[alarm.name]
            is_count = alarm_id != "latency-p99"
            yield replace(
                alarm,
                name=f"{alarm.name}-rollout",
                description=f"{alarm.description}; for updates: ignores minutes of overload",
                # Together, the bad minutes have at least as many errors as the endpoint's own alarm allows.
                threshold=math.ceil(alarm.threshold / _BAD_MINUTES) if is_count else alarm.threshold,
                series=_series(monitored, variant, alarms),
                expression=_expression(_COMPARED[alarm_id], multi_model=monitored.multi_model),
                period_s=60,
                periods=_MINUTES,
                bad_periods=_BAD_MINUTES,
            )


def _series(monitored: Monitored, variant: MonitoredVariant, alarms: Alarms) -> dict[str, Series]:
    latency = request_metric(monitored, variant, "ModelLatency")
    in_time_us = round((alarms.latency_p99_ms or BROKEN_MS) * MICROSECONDS_PER_MS)
    return {
        "calls": traffic(monitored, variant),
        "replies": Series(latency, "SampleCount"),
        "fast": Series(latency, f"PR(:{in_time_us})"),
        "slowest": Series(latency, "p99"),
        "failed": Series(request_metric(monitored, variant, "Invocation5XXErrors"), "Sum"),
        "rejected": Series(request_metric(monitored, variant, "Invocation4XXErrors"), "Sum"),
    }


def _expression(value: str, *, multi_model: bool) -> str:
    """Return the value in minutes without an overload, else 0.

    In multi-model mode, Triton answers its own errors, rejections included, with 400.
    """
    errors = "FILL(failed, 0)" + (" - FILL(rejected, 0)" if multi_model else "")
    answered = f"FILL(fast, 100) * FILL(replies, 0) / 100 - {errors}"
    result = f"FILL({value}, 0)"
    broken_us = BROKEN_MS * MICROSECONDS_PER_MS
    return (
        f"IF({answered} > {LEAST_ANSWERED} * FILL(calls, 0), {result}, "
        f"IF(FILL(fast, 100) > {MOST_FAST_PERCENT}, {result}, "
        f"IF(FILL(slowest, 0) > {broken_us}, IF(FILL(fast, 0) > {LEAST_FAST_PERCENT}, {result}, 0), 0)))"
    )
