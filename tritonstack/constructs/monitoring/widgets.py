"""CloudWatch dashboard widgets as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring.metrics import Metric, Series

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
    width: int = 0
    """Width in columns; 0: an equal share of its row."""


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


def text(markdown: str, *, height: int = 2) -> Widget:
    """Return a text widget."""
    return Widget("text", {"markdown": markdown}, height=height)


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
    properties = {
        "title": title,
        "region": "",
        "view": "table",
        "query": f"SOURCE '{group}' | {query}",
    }
    return Widget("log", properties, height=8)


def as_text(body: Mapping[str, Any]) -> str:
    """Return the dashboard body without white space: a template is limited to 1 MB."""
    return json.dumps(body, separators=(",", ":"))


def dashboard_body(rows: Iterable[Sequence[Widget]], location: AwsScope) -> dict[str, Any]:
    """Arrange widgets in rows, and fill in their region and the ARNs of alarms; skip empty rows."""
    widgets: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        x = 0
        for widget in row:
            width = widget.width or WIDTH // len(row)
            widgets.append(
                {
                    "type": widget.type,
                    "x": x,
                    "y": y,
                    "width": width,
                    "height": widget.height,
                    "properties": _located(widget.properties, location),
                }
            )
            x += width
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
