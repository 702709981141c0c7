"""Define the alarms of an endpoint and their conditions, as plain data for CloudWatch.

No alarm triggers without traffic. Most SageMaker metrics have no data then, and missing data counts as OK;
instance and log metrics are evaluated together with the traffic.

An asynchronous endpoint publishes no OverheadLatency, so it has no overhead alarm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tritonstack.base import naming
from tritonstack.constructs.monitoring.metrics import (
    MICROSECONDS_PER_MS,
    Series,
    copy_metric,
    machine_metric,
    queue_metric,
    request_metric,
    traffic,
)
from tritonstack.constructs.monitoring.monitored import Monitored, MonitoredVariant
from tritonstack.constructs.monitoring.triton_log import LogCount, log_count
from tritonstack.spec.endpoints.endpoint import Alarms
from tritonstack.spec.endpoints.rollouts import AlarmId

Comparison = Literal["GreaterThanOrEqualToThreshold", "GreaterThanThreshold", "LessThanThreshold"]

FIVE_MINUTES = 300


@dataclass(frozen=True)
class AlarmPlan:
    """One alarm: it triggers when the value breaches the threshold in enough of `periods` periods."""

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


@dataclass(frozen=True)
class EndpointAlarm:
    """An alarm and its kind."""

    id: AlarmId
    plan: AlarmPlan


@dataclass(frozen=True)
class _UnnamedAlarm:
    """An alarm of one variant, before it has a name."""

    id: AlarmId
    description: str
    threshold: float | None
    series: Mapping[str, Series]
    expression: str | None = None
    comparison: Comparison = "GreaterThanOrEqualToThreshold"
    periods: int = 1


def endpoint_alarms(monitored: Monitored, alarms: Alarms) -> tuple[EndpointAlarm, ...]:
    """Return the alarms of an endpoint: per production variant, then for the whole endpoint.

    A shadow variant has none. It writes to the same log, so an endpoint with a shadow has no alarm on log
    errors.
    """
    watches = [
        (variant, watch)
        for variant in monitored.production
        for watch in (
            *_answer_alarms(monitored, variant, alarms),
            *_instance_alarms(monitored, variant, alarms),
        )
    ]
    watches += [(monitored.main, watch) for watch in _endpoint_alarms(monitored, alarms)]
    return tuple(
        _named(monitored, variant, watch) for variant, watch in watches if watch.threshold is not None
    )


def _answer_alarms(
    monitored: Monitored, variant: MonitoredVariant, alarms: Alarms
) -> Iterator[_UnnamedAlarm]:
    def series(name: str, statistic: str) -> dict[str, Series]:
        return {"value": Series(request_metric(monitored, variant, name), statistic)}

    yield _UnnamedAlarm(
        "latency-p99",
        f"p99 model latency is at least {_number(alarms.latency_p99_ms)} ms",
        _microseconds(alarms.latency_p99_ms),
        series("ModelLatency", "p99"),
    )
    if not monitored.asynchronous:
        yield _overhead_alarms(monitored, variant, alarms)
    yield _UnnamedAlarm(
        "server-errors",
        f"at least {alarms.server_errors} invocations failed (5xx) in 5 minutes",
        alarms.server_errors,
        series("Invocation5XXErrors", "Sum"),
    )
    yield _UnnamedAlarm(
        "client-errors",
        f"at least {alarms.client_errors} invocations were rejected (4xx) in 5 minutes",
        alarms.client_errors,
        series("Invocation4XXErrors", "Sum"),
    )
    yield _UnnamedAlarm(
        "invocation-drop",
        f"fewer than {alarms.min_invocations} invocations per 5 minutes, in 2 consecutive periods",
        alarms.min_invocations,
        {"calls": traffic(monitored, variant)},
        # A count of 0 means no traffic, not a drop.
        expression=f"IF(calls > 0, calls, {alarms.min_invocations})",
        comparison="LessThanThreshold",
        # The first and the last period of traffic are only partly filled.
        periods=2,
    )


def _overhead_alarms(monitored: Monitored, variant: MonitoredVariant, alarms: Alarms) -> _UnnamedAlarm:
    """Watch SageMaker's overhead per request, without model loading time.

    OverheadLatency is everything except ModelLatency, so it includes seconds of model loading.
    """
    overhead = Series(request_metric(monitored, variant, "OverheadLatency"), "p99")
    watch = _UnnamedAlarm(
        "overhead-p99",
        f"p99 SageMaker overhead is at least {_number(alarms.overhead_p99_ms)} ms",
        _microseconds(alarms.overhead_p99_ms),
        {"value": overhead},
    )
    if not monitored.multi_model:
        return watch
    loading = Series(request_metric(monitored, variant, "ModelLoadingWaitTime"), "Maximum")
    return replace(
        watch,
        description=f"{watch.description}, excluding model loading",
        series={"overhead": overhead, "loading": loading},
        expression="overhead - FILL(loading, 0)",
    )


def _instance_alarms(
    monitored: Monitored, variant: MonitoredVariant, alarms: Alarms
) -> Iterator[_UnnamedAlarm]:
    percent = alarms.gpu_memory_percent
    if not variant.instance.gpus:
        return
    if monitored.component:
        # Copies publish a fraction of their reserved memory, instances the sum over their GPUs.
        metric, threshold = copy_metric(monitored.component, "GPUMemoryUtilizationNormalized"), percent
    else:
        metric = machine_metric(monitored, variant, "GPUMemoryUtilization")
        threshold = percent and percent * variant.instance.gpus
    watch = _UnnamedAlarm(
        "gpu-memory",
        f"GPU memory utilization is at least {_number(percent)} %",
        threshold,
        # The instance with the highest utilization counts.
        {"memory": Series(metric, "Maximum")},
    )
    yield _while_called(watch, monitored, (variant,))


def _endpoint_alarms(monitored: Monitored, alarms: Alarms) -> Iterator[_UnnamedAlarm]:
    if not monitored.shadow:
        watch = _UnnamedAlarm(
            "triton-errors",
            f"Triton logged at least {alarms.triton_errors} errors in 5 minutes",
            alarms.triton_errors,
            {"errors": log_count(monitored, LogCount.ERRORS)},
        )
        yield _while_called(watch, monitored, monitored.production)
    if monitored.asynchronous:
        yield _UnnamedAlarm(
            "backlog",
            f"at least {alarms.backlog} requests are queued",
            alarms.backlog,
            {"value": Series(queue_metric(monitored, "ApproximateBacklogSize"), "Average")},
        )


def _while_called(
    watch: _UnnamedAlarm, monitored: Monitored, variants: tuple[MonitoredVariant, ...]
) -> _UnnamedAlarm:
    """Return the same alarm, limited to periods with traffic."""
    (value,) = watch.series
    calls = {f"calls{index}": traffic(monitored, variant) for index, variant in enumerate(variants)}
    total = " + ".join(f"FILL({key}, 0)" for key in calls)
    return replace(watch, series={**watch.series, **calls}, expression=f"IF({total} > 0, {value}, 0)")


def _named(monitored: Monitored, variant: MonitoredVariant, watch: _UnnamedAlarm) -> EndpointAlarm:
    name = naming.alarm_name(monitored.endpoint_name, variant.name, watch.id)
    scope = (
        monitored.endpoint_name if variant == monitored.main else f"{monitored.endpoint_name}, {variant.name}"
    )
    plan = AlarmPlan(
        name=name,
        description=f"{scope}: {watch.description}",
        threshold=watch.threshold or 0,
        series=watch.series,
        expression=watch.expression,
        comparison=watch.comparison,
        periods=watch.periods,
    )
    return EndpointAlarm(watch.id, plan)


def _microseconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds * MICROSECONDS_PER_MS


def _number(value: float | None) -> str:
    return f"{value or 0:g}"
