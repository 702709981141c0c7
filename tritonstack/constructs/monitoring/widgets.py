"""What CloudWatch's dashboards are built of, as plain values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack.constructs.monitoring.metrics import Metric, Series

WIDTH = 24
"""Columns of a dashboard."""
MOST_METRICS = 2500
MOST_ALARMS_OF_A_WIDGET = 100
"""CloudWatch's limits; metrics that only expressions look at count as well."""

_PERIOD_S = 300


@dataclass(frozen=True)
class Place:
    """Where the metrics and alarms of a dashboard are."""

    account: str
    region: str
    partition: str = "aws"

    def alarm_arn(self, name: str) -> str:
        """An alarm, as widgets name it."""
        return f"arn:{self.partition}:cloudwatch:{self.region}:{self.account}:alarm:{name}"


@dataclass(frozen=True)
class Line:
    """One entry of a chart: a series, or an expression over others by their ids."""

    label: str
    source: Series | str
    id: str | None = None
    shown: bool = True

    @property
    def metric(self) -> Metric | None:
        """What it reads itself."""
        return self.source.metric if isinstance(self.source, Series) else None

    def render(self) -> list[Any]:
        """In CloudWatch's form."""
        look: dict[str, Any] = {"label": self.label}
        if self.id:
            look["id"] = self.id
        if not self.shown:
            look["visible"] = False
        if isinstance(self.source, str):
            return [{"expression": self.source, **look}]
        metric = self.source.metric
        dimensions = [text for pair in metric.dimensions for text in pair]
        return [metric.namespace, metric.name, *dimensions, {**look, "stat": self.source.statistic}]


@dataclass(frozen=True)
class Mark:
    """A horizontal line in a chart."""

    label: str
    value: float


@dataclass(frozen=True)
class Widget:
    """One tile of a dashboard."""

    type: str
    properties: Mapping[str, Any]
    height: int = 6
    width: int = 0
    """Columns; 0: an equal share of its row."""


def chart(
    title: str,
    lines: Iterable[Line],
    *,
    place: Place,
    unit: str = "",
    marks: Sequence[Mark] = (),
) -> Widget:
    """Lines over time, from zero upwards."""
    properties: dict[str, Any] = {
        "title": title,
        "view": "timeSeries",
        "region": place.region,
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
    """Words."""
    return Widget("text", {"markdown": markdown}, height=height)


def alarm_states(
    title: str, names: Sequence[str], *, place: Place, only_ringing: bool = False
) -> list[Widget]:
    """The states of alarms, in as many widgets as it takes; none if there are no alarms."""
    chunks = [
        names[start : start + MOST_ALARMS_OF_A_WIDGET]
        for start in range(0, len(names), MOST_ALARMS_OF_A_WIDGET)
    ]
    return [
        Widget(
            "alarm",
            {
                "title": title,
                "alarms": [place.alarm_arn(name) for name in chunk],
                "sortBy": "stateUpdatedTimestamp",
                **({"states": ["ALARM"]} if only_ringing else {}),
            },
            height=3,
        )
        for chunk in chunks
    ]


def log_lines(title: str, *, group: str, query: str, place: Place) -> Widget:
    """What a query of CloudWatch Logs Insights finds."""
    properties = {
        "title": title,
        "region": place.region,
        "view": "table",
        "query": f"SOURCE '{group}' | {query}",
    }
    return Widget("log", properties, height=8)


def as_text(body: Mapping[str, Any]) -> str:
    """A dashboard as CloudFormation takes it: tight, for a template has no more than a megabyte."""
    return json.dumps(body, separators=(",", ":"))


def dashboard_body(rows: Iterable[Sequence[Widget]]) -> dict[str, Any]:
    """A dashboard of widgets in rows; empty rows take no room."""
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
                    "properties": dict(widget.properties),
                }
            )
            x += width
        y += max((widget.height for widget in row), default=0)
    # Periods follow the time range that is looked at; expressions ask for them.
    return {"start": "-PT12H", "periodOverride": "auto", "widgets": widgets}
