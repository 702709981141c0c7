"""CloudWatch dashboard widgets as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring.monitored import (
    MICROSECONDS_PER_MS,
    Metric,
    Monitored,
    MonitoredVariant,
    Series,
    copy_metric,
    machine_metric,
    request_metric,
    traffic,
)

WIDTH = 24
"""The number of columns of a dashboard."""
MOST_METRICS = 2500
MOST_ALARMS_OF_A_WIDGET = 100
"""CloudWatch's limits; metrics that only expressions use also count."""

_PERIOD_S = 300


@dataclass(frozen=True)
class Line:
    """One line of a chart: a series, or an expression over the ids of others."""

    label: str
    source: Series | str
    id: str | None = None
    shown: bool = True

    @property
    def metric(self) -> Metric | None:
        """Return the metrics that the line reads."""
        return self.source.metric if isinstance(self.source, Series) else None

    def render(self) -> list[Any]:
        """Return the line in CloudWatch's format."""
        options: dict[str, Any] = {"label": self.label}
        if self.id:
            options["id"] = self.id
        if not self.shown:
            options["visible"] = False
        if isinstance(self.source, str):
            return [{"expression": self.source, **options}]
        metric = self.source.metric
        dimensions = [text for pair in metric.dimensions for text in pair]
        return [metric.namespace, metric.name, *dimensions, {**options, "stat": self.source.statistic}]


@dataclass(frozen=True)
class Annotation:
    """A horizontal line in a chart."""

    label: str
    value: float


@dataclass(frozen=True)
class Widget:
    """One widget of a dashboard."""

    type: str
    properties: Mapping[str, Any]
    height: int = 6


def chart(title: str, lines: Iterable[Line], *, unit: str = "", marks: Sequence[Annotation] = ()) -> Widget:
    """Return a chart of lines over time, starting at 0."""
    properties: dict[str, Any] = {
        "title": title,
        "view": "timeSeries",
        "region": "",
        "period": _PERIOD_S,
        "metrics": [line.render() for line in lines],
        "yAxis": {"left": {"min": 0, "showUnits": False, **({"label": unit} if unit else {})}},
    }
    if marks:
        properties["annotations"] = {
            "horizontal": [{"label": mark.label, "value": mark.value} for mark in marks]
        }
    return Widget("metric", properties)


def text(markdown: str) -> Widget:
    """Return a text widget."""
    return Widget("text", {"markdown": markdown}, height=2)


def alarm_states(title: str, names: Sequence[str], *, only_firing: bool = False) -> list[Widget]:
    """Return the widgets of alarm states, as many as needed."""
    chunks = [
        names[start : start + MOST_ALARMS_OF_A_WIDGET]
        for start in range(0, len(names), MOST_ALARMS_OF_A_WIDGET)
    ]
    return [
        Widget(
            "alarm",
            {
                "title": title,
                "alarms": list(chunk),
                "sortBy": "stateUpdatedTimestamp",
                **({"states": ["ALARM"]} if only_firing else {}),
            },
            height=3,
        )
        for chunk in chunks
    ]


def log_lines(title: str, *, group: str, query: str) -> Widget:
    """Return a table of CloudWatch Logs Insights results."""
    properties = {"title": title, "region": "", "view": "table", "query": f"SOURCE '{group}' | {query}"}
    return Widget("log", properties, height=8)


def as_text(body: Mapping[str, Any]) -> str:
    """Return the dashboard body without white space: a template is limited to 1 MB."""
    return json.dumps(body, separators=(",", ":"))


def dashboard_body(rows: Iterable[Sequence[Widget]], location: AwsScope) -> dict[str, Any]:
    """Arrange widgets in rows, and fill in their region and the ARNs of alarms; skip empty rows."""
    widgets: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        width = WIDTH // len(row) if row else 0
        for index, widget in enumerate(row):
            widgets.append(
                {
                    "type": widget.type,
                    "x": index * width,
                    "y": y,
                    "width": width,
                    "height": widget.height,
                    "properties": _located(widget.properties, location),
                }
            )
        y += max((widget.height for widget in row), default=0)
    # Periods follow the selected time range; expressions require them.
    return {"start": "-PT12H", "periodOverride": "auto", "widgets": widgets}


def _located(properties: Mapping[str, Any], location: AwsScope) -> dict[str, Any]:
    located = dict(properties)
    if "region" in located:
        located["region"] = location.region
    if "alarms" in located:
        located["alarms"] = [location.arn("cloudwatch", f"alarm:{name}") for name in located["alarms"]]
    return located


PERCENTILES = ("p50", "p90", "p99")
_MINUTES_PER_HOUR = 60


def traffic_lines(monitored: Monitored) -> Iterator[Line]:
    """Yield the requests per variant."""
    for variant in monitored.variants:
        yield Line(variant.name, traffic(monitored, variant))


def request_lines(monitored: Monitored, names: Sequence[tuple[str, str]], statistic: str) -> Iterator[Line]:
    """Yield request metrics per variant, given as (metric, label)."""
    for variant in monitored.variants:
        for name, label in names:
            series = Series(request_metric(monitored, variant, name), statistic)
            yield Line(f"{variant.name}: {label}", series)


def latency_lines(
    monitored: Monitored, metric: str, *, statistics: Sequence[str] = PERCENTILES
) -> Iterator[Line]:
    """Yield latency percentiles per variant, in milliseconds."""
    for index, variant in enumerate(monitored.variants):
        for statistic in statistics:
            series = Series(request_metric(monitored, variant, metric), statistic)
            label = f"{variant.name}: {statistic}"
            yield from scaled(f"{statistic.lower()}_{index}", label, series, MICROSECONDS_PER_MS)


def machine_lines(
    monitored: Monitored, metric: str, *, parts: Callable[[MonitoredVariant], int]
) -> Iterator[Line]:
    """Yield a utilization in percent: SageMaker sums it over an instance's processors or GPUs."""
    for index, variant in enumerate(monitored.variants):
        series = Series(machine_metric(monitored, variant, metric), "Average")
        yield from scaled(f"used{index}", variant.name, series, parts(variant))


def scaled(key: str, label: str, series: Series, divisor: int) -> Iterator[Line]:
    """Yield a series divided by a number."""
    if divisor == 1:
        yield Line(label, series)
        return
    yield Line(label, series, id=key, shown=False)
    yield Line(label, f"{key} / {divisor}")


def count_lines(monitored: Monitored, *, key: str) -> Iterator[Line]:
    """Yield the instance count per variant: each instance publishes once per minute, so samples are
    counted."""
    for index, variant in enumerate(monitored.variants):
        yield from _counted(f"{key}_{index}", variant.name, _machine_minutes(monitored, variant).metric)


def copy_lines(component: str) -> Iterator[Line]:
    """Yield the copy count of an inference component, counted the same way."""
    yield from _counted("copies", "copies", copy_metric(component, "CPUUtilizationNormalized"))


def cost_per_hour_lines(monitored: Monitored, *, key: str, label: str) -> Iterator[Line]:
    """Yield the cost of all instances, shadow included, if every price is known."""
    minutes, cost = _cost(monitored, key)
    yield from minutes
    yield Line(label, f"({cost}) * 3600 / PERIOD({key}_0)", id=f"{key}_hour")


def cost_per_thousand_lines(monitored: Monitored, *, key: str, label: str) -> Iterator[Line]:
    """Yield the cost per 1,000 requests; no value without traffic."""
    minutes, cost = _cost(monitored, key)
    yield from minutes
    calls = []
    for index, variant in enumerate(monitored.production):
        calls.append(f"{key}_calls{index}")
        yield Line(f"{label}: calls", traffic(monitored, variant), id=calls[-1], shown=False)
    total = calls[0] if len(calls) == 1 else " + ".join(f"FILL({call}, 0)" for call in calls)
    yield Line(label, f"({cost}) / ({total}) * 1000", id=f"{key}_thousand")


def unpriced(monitored: Monitored) -> list[str]:
    """Return the instance types without a known price."""
    return sorted({v.instance.name for v in monitored.variants if v.price_per_hour is None})


def _machine_minutes(monitored: Monitored, variant: MonitoredVariant) -> Series:
    return Series(machine_metric(monitored, variant, "CPUUtilization"), "SampleCount")


def _counted(key: str, label: str, metric: Metric) -> Iterator[Line]:
    yield Line(label, Series(metric, "SampleCount"), id=key, shown=False)
    yield Line(label, f"{key} / (PERIOD({key}) / 60)")


def _cost(monitored: Monitored, key: str) -> tuple[list[Line], str]:
    """Return the instance minutes per variant, and the expression of their total cost."""
    minutes, terms = [], []
    for index, variant in enumerate(monitored.variants):
        name = f"{key}_{index}"
        minutes.append(
            Line(f"{variant.name}: minutes", _machine_minutes(monitored, variant), id=name, shown=False)
        )
        terms.append(f"FILL({name}, 0) * {variant.price_per_hour or 0:g} / {_MINUTES_PER_HOUR}")
    return minutes, " + ".join(terms)
