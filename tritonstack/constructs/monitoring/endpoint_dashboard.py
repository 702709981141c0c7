"""Create the dashboard of one endpoint: traffic, latency, instances, cost, and Triton's log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring import widgets as charts
from tritonstack.constructs.monitoring.endpoint_alarms import EndpointAlarms
from tritonstack.constructs.monitoring.monitored import (
    ERROR_LINES,
    MICROSECONDS_PER_MS,
    LogCount,
    Monitored,
    MonitoredVariant,
    Series,
    log_count,
    machine_metric,
    queue_metric,
    request_metric,
)
from tritonstack.constructs.monitoring.widgets import (
    Annotation,
    Line,
    Widget,
    alarm_states,
    as_text,
    chart,
    dashboard_body,
    log_lines,
    text,
)
from tritonstack.files.endpoint.endpoint import ServingOptions

Row = Sequence[Widget]


class EndpointDashboard(Construct):
    """Create one dashboard in the endpoint's stack."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        monitored: Monitored,
        alarms: EndpointAlarms,
        options: ServingOptions,
    ) -> None:
        super().__init__(scope, construct_id)
        location = AwsScope.of(self)
        self.name = naming.endpoint_dashboard_name(monitored.endpoint_name, region=location.region)
        body = endpoint_dashboard_body(
            monitored, options=options, alarm_names=alarms.all_names, location=location
        )
        cloudwatch.CfnDashboard(self, "Dashboard", dashboard_name=self.name, dashboard_body=as_text(body))


def endpoint_dashboard_body(
    monitored: Monitored, *, options: ServingOptions, alarm_names: Sequence[str], location: AwsScope
) -> dict[str, Any]:
    """Return the dashboard as plain data."""
    return dashboard_body(
        [
            [text(_heading(monitored))],
            alarm_states("Alarms", alarm_names),
            *_request_rows(monitored, options),
            *([_shadow_row(monitored)] if monitored.shadow else []),
            *([_queue_row(monitored, options)] if monitored.asynchronous else []),
            *_machine_rows(monitored, options),
            *(_model_rows(monitored) if monitored.multi_model else []),
            [_costs(monitored)] if charts.unpriced(monitored) else _cost_row(monitored),
            *_log_rows(monitored),
        ],
        location,
    )


def _heading(monitored: Monitored) -> str:
    variants = " · ".join(
        f"{variant.name}{' (shadow)' if variant.shadow else ''}: {variant.instance.name}"
        for variant in monitored.variants
    )
    return f"# {monitored.endpoint_name}\n{variants}"


def _request_rows(monitored: Monitored, options: ServingOptions) -> Iterator[Row]:
    errors = [("Invocation5XXErrors", "5xx"), ("Invocation4XXErrors", "4xx")]
    if monitored.asynchronous:
        errors += [("InvocationFailures", "failed"), ("ExpiredRequests", "expired")]
    else:
        errors.append(("InvocationModelErrors", "no 2xx from the model"))
    if monitored.component:
        errors.append(("NoCapacityInvocationFailures", "no copy available"))
    yield [
        chart("Requests", charts.traffic_lines(monitored)),
        chart("Errors", charts.request_lines(monitored, errors, "Sum")),
    ]
    yield [
        chart(
            "Model latency",
            charts.latency_lines(monitored, "ModelLatency"),
            unit="ms",
            marks=_bound(options.alarms.latency_p99_ms),
        ),
        _other_time(monitored, options),
    ]


def _other_time(monitored: Monitored, options: ServingOptions) -> Widget:
    if monitored.asynchronous:
        lines = charts.latency_lines(monitored, "TimeInBacklog")
        return chart("Time in queue", lines, unit="ms")
    lines = charts.latency_lines(monitored, "OverheadLatency")
    marks = _bound(options.alarms.overhead_p99_ms)
    return chart("SageMaker overhead", lines, unit="ms", marks=marks)


def _shadow_row(monitored: Monitored) -> Row:
    """Compare the shadow with the main variant; both get the same requests."""
    shadow = monitored.variants.index(monitored.shadow) if monitored.shadow else 0
    both = list(charts.latency_lines(monitored, "ModelLatency", statistics=("p50", "p99")))
    hidden = [line for line in both if not line.shown]
    slower = [
        Line(f"{statistic}: shadow − main", f"({statistic}_{shadow} - {statistic}_0) / 1000")
        for statistic in ("p50", "p99")
    ]
    failing = charts.request_lines(monitored, [("Invocation5XXErrors", "5xx")], "Average")
    return [
        chart("Shadow latency difference", [*hidden, *slower], unit="ms"),
        chart("Failed requests", failing),
    ]


def _queue_row(monitored: Monitored, options: ServingOptions) -> Row:
    def line(name: str, label: str) -> Line:
        return Line(label, Series(queue_metric(monitored, name), "Maximum"))

    waiting = [
        line("ApproximateBacklogSize", "all"),
        line("ApproximateBacklogSizePerInstance", "per instance"),
    ]
    return [
        chart("Queued requests", waiting, marks=_bound(options.alarms.backlog)),
        chart("Age of oldest request", [line("ApproximateAgeOfOldestRequest", "oldest")], unit="s"),
    ]


def _machine_rows(monitored: Monitored, options: ServingOptions) -> Iterator[Row]:
    numbers = [
        chart("Instances", charts.count_lines(monitored, key="machines"), marks=_machine_limits(monitored))
    ]
    if monitored.component and options.components:
        marks = [
            Annotation("minimum", options.components.min_copies),
            Annotation("maximum", options.components.max_copies),
        ]
        numbers.append(chart("Copies", charts.copy_lines(monitored.component), marks=marks))
    if not monitored.asynchronous:
        name = "ConcurrentRequestsPerCopy" if monitored.component else "ConcurrentRequestsPerModel"
        lines = charts.request_lines(monitored, [(name, "concurrent")], "Maximum")
        numbers.append(chart("Concurrent requests", lines))
    yield numbers
    uses: list[tuple[str, str, Callable[[MonitoredVariant], int]]] = [
        ("CPU utilization", "CPUUtilization", lambda variant: variant.instance.vcpus),
        ("Memory utilization", "MemoryUtilization", lambda _: 1),
    ]
    if monitored.multi_model:
        uses.append(("Disk utilization", "DiskUtilization", lambda _: 1))
    if any(variant.instance.gpus for variant in monitored.variants):
        uses += [
            # Variants without GPUs publish no GPU utilization.
            ("GPU utilization", "GPUUtilization", lambda variant: max(1, variant.instance.gpus)),
            ("GPU memory utilization", "GPUMemoryUtilization", lambda variant: max(1, variant.instance.gpus)),
        ]
    yield [
        chart(title, charts.machine_lines(monitored, metric, parts=parts), unit="%")
        for title, metric, parts in uses
    ]


def _machine_limits(monitored: Monitored) -> list[Annotation]:
    marks = []
    for variant in monitored.variants if not monitored.component else ():
        scaling = variant.scaling
        marks += [
            Annotation(f"{variant.name}: fewest", scaling.min_instances),
            Annotation(f"{variant.name}: most", scaling.max_instances),
        ]
    return marks


def _model_rows(monitored: Monitored) -> Iterator[Row]:
    times = [
        ("ModelLoadingWaitTime", "a request waited"),
        ("ModelDownloadingTime", "download"),
        ("ModelLoadingTime", "load"),
        ("ModelUnloadingTime", "unload"),
    ]
    waits = [
        line
        for index, (metric, label) in enumerate(times)
        for line in _milliseconds(monitored, metric, label, key=f"time{index}")
    ]
    hits = charts.request_lines(monitored, [("ModelCacheHit", "loaded")], "Average")
    loaded = Series(machine_metric(monitored, monitored.main, "LoadedModelCount"), "Average")
    yield [
        chart("Requests with model already loaded", hits),
        chart("Models loaded per instance", [Line("average", loaded)]),
        chart("Model loading time", waits, unit="ms"),
    ]


def _milliseconds(monitored: Monitored, metric: str, label: str, *, key: str) -> Iterator[Line]:
    series = Series(request_metric(monitored, monitored.main, metric), "Average")
    return charts.scaled(key, label, series, MICROSECONDS_PER_MS)


def _cost_row(monitored: Monitored) -> Row:
    hour = charts.cost_per_hour_lines(monitored, key="cost", label="per hour")
    thousand = charts.cost_per_thousand_lines(monitored, key="cost", label="1,000 requests")
    return [chart("Cost per hour", hour), chart("Cost per 1,000 requests", thousand)]


def _costs(monitored: Monitored) -> Widget:
    kinds = ", ".join(charts.unpriced(monitored))
    return text(
        f"**Cost** is not shown: no price is known for {kinds}. Add it to `prices` in the environment's file."
    )


def _log_rows(monitored: Monitored) -> Iterator[Row]:
    labels = {
        LogCount.ERRORS: "errors",
        LogCount.FAILED_LOADS: "failed loads",
        LogCount.OUT_OF_MEMORY: "out of memory",
        LogCount.UNHEALTHY_STUBS: "crashed Python models",
    }
    counts = [Line(label, log_count(monitored, count)) for count, label in labels.items()]
    yield [
        chart("Triton errors by cause", counts),
        log_lines("Latest Triton errors", group=monitored.log_group_name, query=ERROR_LINES),
    ]


def _bound(value: float | None) -> list[Annotation]:
    return [] if value is None else [Annotation("alarm", value)]
