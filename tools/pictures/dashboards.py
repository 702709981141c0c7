"""Draw the CloudWatch dashboards of a deployed environment with the data that CloudWatch returns for them.

Each widget of the dashboard's body is drawn at its place. Queries go through GetMetricData, as those of the
console do.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Any

from tritonstack.operate.report.svg_charts import LIGHT, ChartLine, ChartStyle, LineChart, draw_chart
from tritonstack.operate.shared.aws import Cloud

_COLUMN, _ROW, _GAP = 44, 44, 8
_COLUMNS = 24
_PERIOD_S = 60
_TICKS = 4
_PERIOD_CALL = re.compile(r"PERIOD\(\w+\)")
"""The local cloud's metric math has no PERIOD."""
_INSTANCE_PERIOD_S = 60 * _PERIOD_S
"""Instances publish once per minute, which the local cloud shortens to a second."""
_UNMARKED = re.compile(r"^# |\*\*|`")
_STATES = {"OK": LIGHT.lines[2], "ALARM": LIGHT.lines[6], "INSUFFICIENT_DATA": LIGHT.muted}
_INK, _SOFT = f'fill="{LIGHT.text}"', f'fill="{LIGHT.muted}"'


@dataclass(frozen=True)
class TimeRange:
    """The time that a dashboard shows."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Return its length."""
        return (self.end - self.begin).total_seconds()

    def ticks(self) -> list[tuple[float, str]]:
        """Return times for an axis, as seconds since the begin."""
        step = 60 * math.ceil(self.seconds / 60 / _TICKS)
        times = range(0, int(self.seconds) + 1, step)
        return [(time, f"{self.begin + timedelta(seconds=time):%H:%M}") for time in times]


def draw_dashboard(cloud: Cloud, name: str, shown: TimeRange) -> str:
    """Return an SVG document of one dashboard."""
    body = json.loads(cloud.client("cloudwatch").get_dashboard(DashboardName=name)["DashboardBody"])
    widgets = body["widgets"]
    height = max(widget["y"] + widget["height"] for widget in widgets) * _ROW
    drawn = "\n".join(_placed(cloud, widget, shown) for widget in widgets)
    width = _COLUMNS * _COLUMN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img">\n'
        f"<title>Dashboard {escape(name)}</title>\n"
        f'<rect width="100%" height="100%" fill="{LIGHT.background}"/>\n{drawn}\n</svg>\n'
    )


def _placed(cloud: Cloud, widget: Mapping[str, Any], shown: TimeRange) -> str:
    width, height = widget["width"] * _COLUMN, widget["height"] * _ROW
    properties = widget["properties"]
    if widget["type"] == "metric":
        elements = "".join(_charted(_chart(cloud, properties, shown), width - _GAP, height - _GAP))
    elif widget["type"] == "alarm":
        elements = "".join(_alarms(cloud, properties, width - _GAP))
    elif widget["type"] == "text":
        elements = "".join(_text(properties["markdown"]))
    else:
        elements = _heading(properties["title"]) + _paragraph(
            "CloudWatch Logs Insights fills this table; the local cloud runs no such queries.", 44
        )
    frame = (
        f'<rect width="{width - _GAP}" height="{height - _GAP}" rx="6" fill="none" stroke="{LIGHT.grid}"/>'
        if widget["type"] != "text"
        else ""
    )
    x, y = widget["x"] * _COLUMN + _GAP // 2, widget["y"] * _ROW + _GAP // 2
    return f'<g transform="translate({x} {y})">{frame}{elements}</g>'


def _charted(chart: LineChart, width: int, height: int) -> Iterator[str]:
    """Yield a chart, and its legend below it."""
    names = [line.name for line in chart.lines]
    places = list(_rows(names, 26, width))
    top = height - 18 * (places[-1][1] + 1) if places else height
    style = ChartStyle(LIGHT, width=width, height=top, right=28, legend=False)
    yield f'<svg width="{width}" height="{top}">{draw_chart(chart, style)}</svg>'
    for number, (line, (x, row)) in enumerate(zip(chart.lines, places, strict=True)):
        color, y = LIGHT.lines[number % len(LIGHT.lines)], top + 18 * row
        dashes = ' stroke-dasharray="5 4"' if line.dashed else ""
        yield f'<path d="M{x} {y}h20" stroke="{color}" stroke-width="2"{dashes}/>'
        yield f'<text x="{x + 26}" y="{y + 4}" {_INK}>{escape(line.name)}</text>'


def _rows(labels: Sequence[str], mark: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the x and the row of each label with its mark, from left to right as far as they fit."""
    x, row = 16, 0
    for label in labels:
        needed = mark + 7 * len(label) + 16
        if x > 16 and x + needed > width:
            x, row = 16, row + 1
        yield x, row
        x += needed


def _chart(cloud: Cloud, properties: Mapping[str, Any], shown: TimeRange) -> LineChart:
    queries = list(metric_queries(properties["metrics"]))
    answer = cloud.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=shown.begin, EndTime=shown.end, ScanBy="TimestampAscending"
    )
    lines = [
        ChartLine(
            result["Label"],
            [
                ((at - shown.begin).total_seconds(), value)
                for at, value in zip(result["Timestamps"], result["Values"], strict=True)
            ],
        )
        for result in answer["MetricDataResults"]
    ]
    for mark in properties.get("annotations", {}).get("horizontal", ()):
        ends = [(0.0, float(mark["value"])), (shown.seconds, float(mark["value"]))]
        lines.append(ChartLine(f"{mark['label']}: {mark['value']:g}", ends, dashed=True))
    unit = properties["yAxis"]["left"].get("label")
    title = f"{properties['title']}, {unit}" if unit else properties["title"]
    return LineChart(title, lines, shown.ticks(), lambda second: second / shown.seconds)


def metric_queries(metrics: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the queries behind the lines of a widget."""
    for number, entry in enumerate(metrics):
        options = entry[-1]
        common = {
            "Id": options.get("id", f"line{number}"),
            "Label": options["label"],
            "ReturnData": options.get("visible", True),
        }
        if "expression" in options:
            expression = _PERIOD_CALL.sub(str(_INSTANCE_PERIOD_S), options["expression"])
            yield {**common, "Expression": expression, "Period": _PERIOD_S}
            continue
        namespace, name, *dimensions = entry[:-1]
        pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
        metric = {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in pairs],
        }
        yield {**common, "MetricStat": {"Metric": metric, "Period": _PERIOD_S, "Stat": options["stat"]}}


def _alarms(cloud: Cloud, properties: Mapping[str, Any], width: int) -> Iterator[str]:
    names = [arn.rpartition(":alarm:")[2] for arn in properties["alarms"]]
    answer = cloud.client("cloudwatch").describe_alarms(AlarmNames=names)
    states = {alarm["AlarmName"]: alarm["StateValue"] for alarm in answer["MetricAlarms"]}
    yield _heading(properties["title"])
    selected = properties.get("states")
    alarms = [name for name in names if name in states and (not selected or states[name] in selected)]
    if not alarms:
        yield _paragraph("none", 44)
    prefix = _common_prefix(alarms)
    labels = [name.removeprefix(prefix) for name in alarms]
    for name, label, (x, row) in zip(alarms, labels, _rows(labels, 20, width), strict=True):
        y = 46 + 22 * row
        yield f'<circle cx="{x + 5}" cy="{y - 4}" r="5" fill="{_STATES[states[name]]}"/>'
        yield f'<text x="{x + 16}" y="{y}" {_INK}>{escape(label)}</text>'


def _common_prefix(names: Sequence[str]) -> str:
    """Return the words that all names begin with."""
    words = [name.split("-") for name in names]
    count = 0
    while words and all(len(title) > count + 1 and title[count] == words[0][count] for title in words):
        count += 1
    return "".join(f"{word}-" for word in words[0][:count]) if len(names) > 1 else ""


def _text(markdown: str) -> Iterator[str]:
    for number, line in enumerate(markdown.splitlines()):
        is_title = line.startswith("# ")
        look = 'font-size="18" font-weight="600" ' + _INK if is_title else _SOFT
        yield f'<text x="12" y="{26 + 24 * number}" {look}>{escape(_UNMARKED.sub("", line))}</text>'


def _heading(text: str) -> str:
    return f'<text x="16" y="20" font-weight="600" {_INK}>{escape(text)}</text>'


def _paragraph(text: str, y: int) -> str:
    return f'<text x="16" y="{y}" {_SOFT}>{escape(text)}</text>'
