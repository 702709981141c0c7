"""Define the alarms of an endpoint and their conditions, as plain data for CloudWatch.

No alarm triggers without traffic. Most SageMaker metrics have no data then, and missing data counts as OK;
instance and log metrics are evaluated together with the traffic.

An asynchronous endpoint publishes no OverheadLatency, so it has no overhead alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from tritonstack.base import naming
from tritonstack.constructs.monitoring.monitored import (
    MICROSECONDS_PER_MS,
    LogCount,
    Monitored,
    MonitoredVariant,
    Series,
    copy_metric,
    log_count,
    machine_metric,
    queue_metric,
    request_metric,
    traffic,
)
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId

Comparison = Literal["GreaterThanOrEqualToThreshold", "GreaterThanThreshold", "LessThanThreshold"]

FIVE_MINUTES = 300


@dataclass(frozen=True)
class AlarmPlan:
    """One alarm: it triggers when the value breaches the threshold in enough of `periods` periods."""

    id: str
    """An AlarmId, or the purpose of an alarm that scales."""
    name: str
    description: str
    threshold: float
    series: Mapping[str, Series]
    """The metrics to evaluate; one, unless an expression combines several."""
    expression: str | None = None
    """Metric math over the series, by key."""
    comparison: Comparison = "GreaterThanOrEqualToThreshold"
    period_s: int = FIVE_MINUTES
    periods: int = 1
    bad_periods: int | None = None
    """Number of periods with a breach; all if not given."""


def endpoint_alarms(monitored: Monitored, alarms: Alarms) -> tuple[AlarmPlan, ...]:
    """Return the alarms of an endpoint: per production variant, then for the whole endpoint.

    A shadow variant has none. It writes to the same log, so an endpoint with a shadow has no alarm on log
    errors.
    """
    of_variants = [
        alarm
        for variant in monitored.production
        for alarm in (
            *_answer_alarms(monitored, variant, alarms),
            *_instance_alarms(monitored, variant, alarms),
        )
    ]
    return (*of_variants, *_endpoint_alarms(monitored, alarms))


def _alarm(
    monitored: Monitored,
    variant: MonitoredVariant,
    alarm_id: AlarmId,
    threshold: float | None,
    description: str,
    series: Mapping[str, Series],
    **conditions: Any,
) -> Iterator[AlarmPlan]:
    """Yield an alarm if it has a threshold."""
    if threshold is not None:
        endpoint = monitored.endpoint_name
        scope = endpoint if variant == monitored.main else f"{endpoint}, {variant.name}"
        name = naming.alarm_name(endpoint, variant.name, alarm_id)
        yield AlarmPlan(alarm_id, name, f"{scope}: {description}", threshold, series, **conditions)


def _answer_alarms(monitored: Monitored, variant: MonitoredVariant, alarms: Alarms) -> Iterator[AlarmPlan]:
    def series(name: str, statistic: str) -> Series:
        return Series(request_metric(monitored, variant, name), statistic)

    alarm = partial(_alarm, monitored, variant)
    yield from alarm(
        "latency-p99",
        _microseconds(alarms.latency_p99_ms),
        f"p99 model latency is at least {_number(alarms.latency_p99_ms)} ms",
        {"value": series("ModelLatency", "p99")},
    )
    if not monitored.asynchronous:
        text = f"p99 SageMaker overhead is at least {_number(alarms.overhead_p99_ms)} ms"
        watched: dict[str, Any] = {"series": {"value": series("OverheadLatency", "p99")}}
        if monitored.multi_model:
            # OverheadLatency is everything except ModelLatency, so it includes seconds of model loading.
            text += ", excluding model loading"
            loading = series("ModelLoadingWaitTime", "Maximum")
            watched["series"] = {"overhead": series("OverheadLatency", "p99"), "loading": loading}
            watched["expression"] = "overhead - FILL(loading, 0)"
        yield from alarm("overhead-p99", _microseconds(alarms.overhead_p99_ms), text, **watched)
    yield from alarm(
        "server-errors",
        alarms.server_errors,
        f"at least {alarms.server_errors} invocations failed (5xx) in 5 minutes",
        {"value": series("Invocation5XXErrors", "Sum")},
    )
    yield from alarm(
        "client-errors",
        alarms.client_errors,
        f"at least {alarms.client_errors} invocations were rejected (4xx) in 5 minutes",
        {"value": series("Invocation4XXErrors", "Sum")},
    )
    yield from alarm(
        "invocation-drop",
        alarms.min_invocations,
        f"fewer than {alarms.min_invocations} invocations per 5 minutes, in 2 consecutive periods",
        {"calls": traffic(monitored, variant)},
        # A count of 0 means no traffic, not a drop.
        expression=f"IF(calls > 0, calls, {alarms.min_invocations})",
        comparison="LessThanThreshold",
        # The first and the last period of traffic are only partly filled.
        periods=2,
    )


def _instance_alarms(monitored: Monitored, variant: MonitoredVariant, alarms: Alarms) -> Iterator[AlarmPlan]:
    percent = alarms.gpu_memory_percent
    if not variant.instance.gpus:
        return
    if monitored.component:
        # Copies publish a fraction of their reserved memory, instances the sum over their GPUs.
        metric, threshold = copy_metric(monitored.component, "GPUMemoryUtilizationNormalized"), percent
    else:
        metric = machine_metric(monitored, variant, "GPUMemoryUtilization")
        threshold = percent and percent * variant.instance.gpus
    yield from _alarm(
        monitored,
        variant,
        "gpu-memory",
        threshold,
        f"GPU memory utilization is at least {_number(percent)} %",
        # The instance with the highest utilization counts.
        **_while_called(monitored, [variant], "memory", Series(metric, "Maximum")),
    )


def _endpoint_alarms(monitored: Monitored, alarms: Alarms) -> Iterator[AlarmPlan]:
    alarm = partial(_alarm, monitored, monitored.main)
    if not monitored.shadow:
        yield from alarm(
            "triton-errors",
            alarms.triton_errors,
            f"Triton logged at least {alarms.triton_errors} errors in 5 minutes",
            **_while_called(monitored, monitored.production, "errors", log_count(monitored, LogCount.ERRORS)),
        )
    if monitored.asynchronous:
        yield from alarm(
            "backlog",
            alarms.backlog,
            f"at least {alarms.backlog} requests are queued",
            {"value": Series(queue_metric(monitored, "ApproximateBacklogSize"), "Average")},
        )


def _while_called(
    monitored: Monitored, variants: Sequence[MonitoredVariant], key: str, value: Series
) -> dict[str, Any]:
    """Return the condition that a value breaches its threshold in a period with traffic."""
    calls = {f"calls{index}": traffic(monitored, variant) for index, variant in enumerate(variants)}
    total = " + ".join(f"FILL({name}, 0)" for name in calls)
    return {"series": {key: value, **calls}, "expression": f"IF({total} > 0, {key}, 0)"}


def _microseconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MICROSECONDS_PER_MS


def _number(value: float | None) -> str:
    return f"{value or 0:g}"
