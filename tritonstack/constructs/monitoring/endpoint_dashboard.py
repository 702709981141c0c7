"""The dashboard of one endpoint: what it answers, how fast, on what, at what cost, and what Triton says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.partition import partition_of
from tritonstack.constructs.monitoring import endpoint_charts as charts
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms
from tritonstack.constructs.monitoring.metrics import (
    MICROSECONDS_PER_MS,
    Series,
    machine_metric,
    queue_metric,
    request_metric,
)
from tritonstack.constructs.monitoring.monitored import Watched, WatchedVariant
from tritonstack.constructs.monitoring.triton_log import ERROR_LINES, LogCount, log_count
from tritonstack.constructs.monitoring.widgets import (
    Line,
    Mark,
    Place,
    Widget,
    alarm_states,
    as_text,
    chart,
    dashboard_body,
    log_lines,
    text,
)
from tritonstack.spec.endpoints.endpoint import ServingOptions

Row = Sequence[Widget]


class EndpointDashboard(Construct):
    """One dashboard, in the endpoint's own stack."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watched: Watched,
        alarms: EndpointAlarms,
        options: ServingOptions,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        place = Place(stack.account, stack.region, partition_of(self))
        self.name = naming.endpoint_dashboard_name(watched.endpoint_name, region=place.region)
        body = endpoint_dashboard_body(watched, options=options, alarm_names=alarms.all_names, place=place)
        cloudwatch.CfnDashboard(self, "Dashboard", dashboard_name=self.name, dashboard_body=as_text(body))


def endpoint_dashboard_body(
    watched: Watched, *, options: ServingOptions, alarm_names: Sequence[str], place: Place
) -> dict[str, Any]:
    """The dashboard as plain values."""
    return dashboard_body(
        [
            [text(_heading(watched))],
            alarm_states("Alarms", alarm_names, place=place),
            *_request_rows(watched, options, place),
            *([_shadow_row(watched, place)] if watched.shadow else []),
            *([_queue_row(watched, options, place)] if watched.asynchronous else []),
            *_machine_rows(watched, options, place),
            *(_model_rows(watched, place) if watched.multi_model else []),
            [_costs(watched, place)] if charts.unpriced(watched) else _cost_row(watched, place),
            *_log_rows(watched, place),
        ]
    )


def _heading(watched: Watched) -> str:
    variants = " · ".join(
        f"{variant.name}{' (shadow)' if variant.shadow else ''}: {variant.instance.name}"
        for variant in watched.variants
    )
    return f"# {watched.endpoint_name}\n{variants}"


def _request_rows(watched: Watched, options: ServingOptions, place: Place) -> Iterator[Row]:
    errors = [("Invocation5XXErrors", "5xx"), ("Invocation4XXErrors", "4xx")]
    if watched.asynchronous:
        errors += [("InvocationFailures", "failed"), ("ExpiredRequests", "expired")]
    else:
        errors.append(("InvocationModelErrors", "no 2xx from the model"))
    if watched.component:
        errors.append(("NoCapacityInvocationFailures", "no copy was there"))
    yield [
        chart("Requests", charts.traffic_lines(watched), place=place),
        chart("Errors", charts.request_lines(watched, errors, "Sum"), place=place),
    ]
    yield [
        chart(
            "Time in the model",
            charts.latency_lines(watched, "ModelLatency"),
            place=place,
            unit="ms",
            marks=_bound(options.alarms.latency_p99_ms),
        ),
        _other_time(watched, options, place),
    ]


def _other_time(watched: Watched, options: ServingOptions, place: Place) -> Widget:
    if watched.asynchronous:
        lines = charts.latency_lines(watched, "TimeInBacklog")
        return chart("Time in the queue", lines, place=place, unit="ms")
    lines = charts.latency_lines(watched, "OverheadLatency")
    marks = _bound(options.alarms.overhead_p99_ms)
    return chart("Time that SageMaker adds", lines, place=place, unit="ms", marks=marks)


def _shadow_row(watched: Watched, place: Place) -> Row:
    """The shadow beside what it may replace: the same requests, so the difference is its own."""
    shadow = watched.variants.index(watched.shadow) if watched.shadow else 0
    both = list(charts.latency_lines(watched, "ModelLatency", statistics=("p50", "p99")))
    hidden = [line for line in both if not line.shown]
    slower = [
        Line(f"{statistic}: shadow − main", f"({statistic}_{shadow} - {statistic}_0) / 1000")
        for statistic in ("p50", "p99")
    ]
    failing = charts.request_lines(watched, [("Invocation5XXErrors", "5xx")], "Average")
    return [
        chart("How much slower the shadow is", [*hidden, *slower], place=place, unit="ms"),
        chart("Part of the requests that fails", failing, place=place),
    ]


def _queue_row(watched: Watched, options: ServingOptions, place: Place) -> Row:
    def line(name: str, label: str) -> Line:
        return Line(label, Series(queue_metric(watched, name), "Maximum"))

    waiting = [
        line("ApproximateBacklogSize", "all"),
        line("ApproximateBacklogSizePerInstance", "for each machine"),
    ]
    return [
        chart("Requests in the queue", waiting, place=place, marks=_bound(options.alarms.backlog)),
        chart("Age of the oldest", [line("ApproximateAgeOfOldestRequest", "oldest")], place=place, unit="s"),
    ]


def _machine_rows(watched: Watched, options: ServingOptions, place: Place) -> Iterator[Row]:
    numbers = [
        chart(
            "Machines",
            charts.count_lines(watched, key="machines"),
            place=place,
            marks=_machine_limits(watched),
        )
    ]
    if watched.component and options.components:
        marks = [
            Mark("fewest", options.components.min_copies),
            Mark("most", options.components.max_copies),
        ]
        numbers.append(chart("Copies", charts.copy_lines(watched.component), place=place, marks=marks))
    if not watched.asynchronous:
        name = "ConcurrentRequestsPerCopy" if watched.component else "ConcurrentRequestsPerModel"
        lines = charts.request_lines(watched, [(name, "at once")], "Maximum")
        numbers.append(chart("Requests in flight", lines, place=place))
    yield numbers
    uses = [
        ("Processors in use", "CPUUtilization", _processors),
        ("Memory in use", "MemoryUtilization", _one),
    ]
    if watched.multi_model:
        uses.append(("Disk in use", "DiskUtilization", _one))
    if any(variant.instance.gpus for variant in watched.variants):
        uses += [
            ("GPUs in use", "GPUUtilization", _gpus),
            ("GPU memory in use", "GPUMemoryUtilization", _gpus),
        ]
    yield [
        chart(title, charts.machine_lines(watched, metric, parts=parts), place=place, unit="%")
        for title, metric, parts in uses
    ]


def _machine_limits(watched: Watched) -> list[Mark]:
    marks = []
    for variant in watched.variants if not watched.component else ():
        scaling = variant.scaling
        marks += [
            Mark(f"{variant.name}: fewest", scaling.min_instances),
            Mark(f"{variant.name}: most", scaling.max_instances),
        ]
    return marks


def _model_rows(watched: Watched, place: Place) -> Iterator[Row]:
    times = [
        ("ModelLoadingWaitTime", "a request waited"),
        ("ModelDownloadingTime", "download"),
        ("ModelLoadingTime", "load"),
        ("ModelUnloadingTime", "unload"),
    ]
    waits = [
        line
        for index, (metric, label) in enumerate(times)
        for line in _milliseconds(watched, metric, label, key=f"time{index}")
    ]
    loaded = Series(machine_metric(watched, watched.main, "LoadedModelCount"), "Average")
    yield [
        chart(
            "Part of the requests whose model was loaded",
            charts.request_lines(watched, [("ModelCacheHit", "loaded")], "Average"),
            place=place,
        ),
        chart("Models loaded on a machine", [Line("average", loaded)], place=place),
        chart("Time for loading models", waits, place=place, unit="ms"),
    ]


def _milliseconds(watched: Watched, metric: str, label: str, *, key: str) -> Iterator[Line]:
    series = Series(request_metric(watched, watched.main, metric), "Average")
    return charts.scaled(key, label, series, MICROSECONDS_PER_MS)


def _cost_row(watched: Watched, place: Place) -> Row:
    hour = charts.cost_per_hour_lines(watched, key="cost", label="an hour")
    thousand = charts.cost_per_thousand_lines(watched, key="cost", label="1,000 requests")
    return [
        chart("Cost of an hour", hour, place=place),
        chart("Cost of 1,000 requests", thousand, place=place),
    ]


def _costs(watched: Watched, place: Place) -> Widget:
    kinds = ", ".join(charts.unpriced(watched))
    return text(
        f"**Cost** is not shown: what an hour of {kinds} costs is not known. "
        "Write it under `prices` in the environment's file."
    )


def _log_rows(watched: Watched, place: Place) -> Iterator[Row]:
    labels = {
        LogCount.ERRORS: "errors",
        LogCount.FAILED_LOADS: "failed loads",
        LogCount.OUT_OF_MEMORY: "out of memory",
        LogCount.UNHEALTHY_STUBS: "dead Python models",
    }
    counts = [Line(label, log_count(watched, count)) for count, label in labels.items()]
    yield [
        chart("What Triton complains of", counts, place=place),
        log_lines("Its last errors", group=watched.log_group_name, query=ERROR_LINES, place=place),
    ]


def _bound(value: float | None) -> list[Mark]:
    return [] if value is None else [Mark("alarm", value)]


def _one(variant: WatchedVariant) -> int:
    return 1


def _processors(variant: WatchedVariant) -> int:
    return variant.instance.vcpus


def _gpus(variant: WatchedVariant) -> int:
    # A variant without GPUs publishes no use of them.
    return max(1, variant.instance.gpus)
