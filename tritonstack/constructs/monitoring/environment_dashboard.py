"""Create the dashboard of all endpoints of an environment: traffic, latency, errors, utilization, and cost.

It respects CloudWatch's limits for any number of endpoints: charts are split, and further endpoints go to
further dashboards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.grants import AwsScope
from tritonstack.constructs.monitoring import widgets as charts
from tritonstack.constructs.monitoring.monitored import MICROSECONDS_PER_MS, Monitored, Series, request_metric
from tritonstack.constructs.monitoring.widgets import (
    MOST_METRICS,
    Line,
    Widget,
    alarm_states,
    as_text,
    chart,
    dashboard_body,
    text,
)

_ENDPOINTS_OF_A_CHART = 20
"""The most lines that stay distinguishable in one chart."""
_METRICS_OF_A_VARIANT = 8
"""Metrics per endpoint in all charts: requests, latency, two kinds of errors, instances, and three for cost.
"""
_VARIANTS_OF_A_PAGE = MOST_METRICS // _METRICS_OF_A_VARIANT


@dataclass(frozen=True)
class DashboardEndpoint:
    """One endpoint: its short name and the names of its alarms."""

    name: str
    monitored: Monitored
    alarm_names: Sequence[str]


def environment_dashboard(
    scope: Construct, construct_id: str, *, base: str, endpoints: Sequence[DashboardEndpoint]
) -> list[str]:
    """Create the dashboard of an environment's endpoints; with hundreds of endpoints, it has several
    pages."""
    scope = Construct(scope, construct_id)
    location = AwsScope.of(scope)
    names = []
    for number, body in enumerate(environment_dashboard_bodies(base, endpoints, location=location), start=1):
        name = naming.environment_dashboard_name(base, region=location.region, page=number)
        names.append(name)
        cloudwatch.CfnDashboard(scope, f"Page{number}", dashboard_name=name, dashboard_body=as_text(body))
    return names


def environment_dashboard_bodies(
    base: str, endpoints: Sequence[DashboardEndpoint], *, location: AwsScope
) -> list[dict[str, Any]]:
    """Return the pages as plain data, at least one."""
    pages = list(_pages(endpoints)) or [[]]
    return [
        dashboard_body(_rows(_heading(base, number, len(pages)), page), location)
        for number, page in enumerate(pages, start=1)
    ]


def _pages(endpoints: Iterable[DashboardEndpoint]) -> Iterator[list[DashboardEndpoint]]:
    page: list[DashboardEndpoint] = []
    room = _VARIANTS_OF_A_PAGE
    for endpoint in endpoints:
        needed = len(endpoint.monitored.variants)
        if needed > room:
            yield page
            page, room = [], _VARIANTS_OF_A_PAGE
        page.append(endpoint)
        room -= needed
    if page:
        yield page


def _heading(base: str, number: int, pages: int) -> str:
    return f"# {base}\n" + (f"Page {number} of {pages}" if pages > 1 else "All endpoints")


def _rows(heading: str, endpoints: Sequence[DashboardEndpoint]) -> Iterator[Sequence[Widget]]:
    yield [text(heading)]
    names = [name for endpoint in endpoints for name in endpoint.alarm_names]
    for widget in alarm_states("Alarms in state ALARM", names, only_firing=True):
        yield [widget]
    for start in range(0, len(endpoints), _ENDPOINTS_OF_A_CHART):
        yield from _charts(endpoints[start : start + _ENDPOINTS_OF_A_CHART])
    unpriced = sorted({kind for endpoint in endpoints for kind in charts.unpriced(endpoint.monitored)})
    if unpriced:
        yield [
            text(
                f"**Cost** is not shown for endpoints on {', '.join(unpriced)}: no price is known. Add "
                "it to `prices` in the environment's file."
            )
        ]


def _charts(endpoints: Sequence[DashboardEndpoint]) -> Iterator[Sequence[Widget]]:
    errors = [("Invocation5XXErrors", "5xx"), ("Invocation4XXErrors", "4xx")]
    yield [
        chart("Requests", _each(endpoints, lambda endpoint, _: charts.traffic_lines(endpoint))),
        chart("p99 model latency", _each(endpoints, _latency), unit="ms"),
        chart("Errors", _each(endpoints, lambda endpoint, _: charts.request_lines(endpoint, errors, "Sum"))),
    ]
    machines = _each(endpoints, lambda endpoint, key: charts.count_lines(endpoint, key=key))
    row = [chart("Instances", machines)]
    priced = [endpoint for endpoint in endpoints if not charts.unpriced(endpoint.monitored)]
    if priced:
        row += [
            chart("Cost per hour", _costs(priced, charts.cost_per_hour_lines)),
            chart("Cost per 1,000 requests", _costs(priced, charts.cost_per_thousand_lines)),
        ]
    yield row


def _each(
    endpoints: Iterable[DashboardEndpoint], lines: Callable[[Monitored, str], Iterable[Line]]
) -> list[Line]:
    """Return the lines of all endpoints, with unique ids and labels."""
    return [
        replace(line, label=f"{endpoint.name} {line.label}")
        for index, endpoint in enumerate(endpoints)
        for line in lines(endpoint.monitored, f"e{index}")
    ]


def _costs(endpoints: Iterable[DashboardEndpoint], lines: Callable[..., Iterable[Line]]) -> list[Line]:
    return [
        line
        for index, endpoint in enumerate(endpoints)
        for line in lines(endpoint.monitored, key=f"e{index}", label=endpoint.name)
    ]


def _latency(monitored: Monitored, key: str) -> Iterator[Line]:
    for index, variant in enumerate(monitored.variants):
        series = Series(request_metric(monitored, variant, "ModelLatency"), "p99")
        yield from charts.scaled(f"{key}_{index}", variant.name, series, MICROSECONDS_PER_MS)
