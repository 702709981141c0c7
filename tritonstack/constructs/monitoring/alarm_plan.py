"""Which alarms an endpoint has, and when each rings: one table, from which CloudWatch's alarms are made.

None rings while nobody calls. Most of SageMaker's metrics have no data then, and missing data is no breach;
what machines and logs publish all the same is looked at only together with the traffic.

An asynchronous endpoint publishes no OverheadLatency, so it has no alarm on it.
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
from tritonstack.constructs.monitoring.monitored import Watched, WatchedVariant
from tritonstack.constructs.monitoring.triton_log import LogCount, log_count
from tritonstack.spec.endpoints.endpoint import Alarms
from tritonstack.spec.endpoints.rollouts import AlarmId

Comparison = Literal["GreaterThanOrEqualToThreshold", "GreaterThanThreshold", "LessThanThreshold"]

FIVE_MINUTES = 300


@dataclass(frozen=True)
class AlarmPlan:
    """One alarm: it rings when its value breaches the threshold in each of so many periods."""

    name: str
    description: str
    threshold: float
    series: Mapping[str, Series]
    """What it looks at; one series, unless an expression makes one of several."""
    expression: str | None = None
    """Metric math over the series, by their keys."""
    comparison: Comparison = "GreaterThanOrEqualToThreshold"
    period_s: int = FIVE_MINUTES
    periods: int = 1


@dataclass(frozen=True)
class EndpointAlarm:
    """An alarm and what it is known as."""

    id: AlarmId
    plan: AlarmPlan


@dataclass(frozen=True)
class _Watch:
    """An alarm of one variant, before it has a name."""

    id: AlarmId
    description: str
    threshold: float | None
    series: Mapping[str, Series]
    expression: str | None = None
    comparison: Comparison = "GreaterThanOrEqualToThreshold"
    periods: int = 1


def endpoint_alarms(watched: Watched, alarms: Alarms) -> tuple[EndpointAlarm, ...]:
    """The alarms of an endpoint: those of each production variant, then those of the endpoint as a whole.

    A shadow has none. It writes into the same log, so beside one the errors in the log wake nobody either.
    """
    watches = [
        (variant, watch)
        for variant in watched.production
        for watch in (*_on_answers(watched, variant, alarms), *_on_machines(watched, variant, alarms))
    ]
    watches += [(watched.main, watch) for watch in _on_the_whole(watched, alarms)]
    return tuple(_named(watched, variant, watch) for variant, watch in watches if watch.threshold is not None)


def _on_answers(watched: Watched, variant: WatchedVariant, alarms: Alarms) -> Iterator[_Watch]:
    def series(name: str, statistic: str) -> dict[str, Series]:
        return {"value": Series(request_metric(watched, variant, name), statistic)}

    yield _Watch(
        "latency-p99",
        f"one request in a hundred takes {_number(alarms.latency_p99_ms)} ms or more in the model",
        _microseconds(alarms.latency_p99_ms),
        series("ModelLatency", "p99"),
    )
    if not watched.asynchronous:
        yield _on_overhead(watched, variant, alarms)
    yield _Watch(
        "server-errors",
        f"{alarms.server_errors} or more invocations failed in five minutes",
        alarms.server_errors,
        series("Invocation5XXErrors", "Sum"),
    )
    yield _Watch(
        "client-errors",
        f"{alarms.client_errors} or more invocations were refused in five minutes",
        alarms.client_errors,
        series("Invocation4XXErrors", "Sum"),
    )
    yield _Watch(
        "invocation-drop",
        f"fewer than {alarms.min_invocations} invocations in five minutes, twice in a row",
        alarms.min_invocations,
        {"calls": traffic(watched, variant)},
        # A count of 0 is no drop but silence.
        expression=f"IF(calls > 0, calls, {alarms.min_invocations})",
        comparison="LessThanThreshold",
        # Where traffic begins and ends, one period is always half empty.
        periods=2,
    )


def _on_overhead(watched: Watched, variant: WatchedVariant, alarms: Alarms) -> _Watch:
    """Watch what SageMaker adds to a request, without the time in which a model is loaded.

    OverheadLatency is everything but ModelLatency, so a request that loads its model counts with seconds.
    """
    overhead = Series(request_metric(watched, variant, "OverheadLatency"), "p99")
    watch = _Watch(
        "overhead-p99",
        f"SageMaker adds {_number(alarms.overhead_p99_ms)} ms or more to one request in a hundred",
        _microseconds(alarms.overhead_p99_ms),
        {"value": overhead},
    )
    if not watched.multi_model:
        return watch
    loading = Series(request_metric(watched, variant, "ModelLoadingWaitTime"), "Maximum")
    return replace(
        watch,
        description=f"{watch.description}, model loading aside",
        series={"overhead": overhead, "loading": loading},
        expression="overhead - FILL(loading, 0)",
    )


def _on_machines(watched: Watched, variant: WatchedVariant, alarms: Alarms) -> Iterator[_Watch]:
    percent = alarms.gpu_memory_percent
    if not variant.instance.gpus:
        return
    if watched.component:
        # Copies publish a share of what they reserved, machines the sum over their GPUs.
        metric, threshold = copy_metric(watched.component, "GPUMemoryUtilizationNormalized"), percent
    else:
        metric = machine_metric(watched, variant, "GPUMemoryUtilization")
        threshold = percent and percent * variant.instance.gpus
    watch = _Watch(
        "gpu-memory",
        f"{_number(percent)} % or more of the GPU memory is in use",
        threshold,
        # The fullest machine counts.
        {"memory": Series(metric, "Maximum")},
    )
    yield _while_called(watch, watched, (variant,))


def _on_the_whole(watched: Watched, alarms: Alarms) -> Iterator[_Watch]:
    if not watched.shadow:
        watch = _Watch(
            "triton-errors",
            f"Triton logged {alarms.triton_errors} or more errors in five minutes",
            alarms.triton_errors,
            {"errors": log_count(watched, LogCount.ERRORS)},
        )
        yield _while_called(watch, watched, watched.production)
    if watched.asynchronous:
        yield _Watch(
            "backlog",
            f"{alarms.backlog} or more requests wait",
            alarms.backlog,
            {"value": Series(queue_metric(watched, "ApproximateBacklogSize"), "Average")},
        )


def _while_called(watch: _Watch, watched: Watched, variants: tuple[WatchedVariant, ...]) -> _Watch:
    """The same alarm, which sees its one series only in periods with traffic."""
    (value,) = watch.series
    calls = {f"calls{index}": traffic(watched, variant) for index, variant in enumerate(variants)}
    total = " + ".join(f"FILL({key}, 0)" for key in calls)
    return replace(watch, series={**watch.series, **calls}, expression=f"IF({total} > 0, {value}, 0)")


def _named(watched: Watched, variant: WatchedVariant, watch: _Watch) -> EndpointAlarm:
    name = naming.alarm_name(watched.endpoint_name, variant.name, watch.id)
    whose = watched.endpoint_name if variant == watched.main else f"{watched.endpoint_name}, {variant.name}"
    plan = AlarmPlan(
        name=name,
        description=f"{whose}: {watch.description}",
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
