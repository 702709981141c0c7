"""The dashboard over many endpoints: which is called, slow, failing, large or dear.

It stays within CloudWatch's limits however many endpoints there are: a chart shows some of them, and what
one dashboard cannot hold goes to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.iam.partition import partition_of
from tritonstack.constructs.monitoring import endpoint_charts as charts
from tritonstack.constructs.monitoring.metrics import MICROSECONDS_PER_MS, Series, request_metric
from tritonstack.constructs.monitoring.monitored import Watched
from tritonstack.constructs.monitoring.widgets import (
    MOST_METRICS,
    Line,
    Place,
    Widget,
    alarm_states,
    as_text,
    chart,
    dashboard_body,
    text,
)

_ENDPOINTS_OF_A_CHART = 20
"""More lines than that, nobody can tell apart."""
_METRICS_OF_A_VARIANT = 8
"""Its part of what all charts read: requests, latency, two kinds of errors, machines, and three for costs."""
_VARIANTS_OF_A_PAGE = MOST_METRICS // _METRICS_OF_A_VARIANT


@dataclass(frozen=True)
class Overseen:
    """One endpoint: what it is called here, and the names of its alarms."""

    name: str
    watched: Watched
    alarm_names: Sequence[str]


class EnvironmentDashboard(Construct):
    """The dashboard over all endpoints of an environment; of several pages if it has hundreds."""

    def __init__(
        self, scope: Construct, construct_id: str, *, base: str, endpoints: Sequence[Overseen]
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        place = Place(stack.account, stack.region, partition_of(self))
        self.names = []
        for number, body in enumerate(environment_dashboard_bodies(base, endpoints, place=place), start=1):
            name = naming.environment_dashboard_name(base, region=place.region, page=number)
            self.names.append(name)
            cloudwatch.CfnDashboard(self, f"Page{number}", dashboard_name=name, dashboard_body=as_text(body))


def environment_dashboard_bodies(
    base: str, endpoints: Sequence[Overseen], *, place: Place
) -> list[dict[str, Any]]:
    """The pages as plain values; one at least."""
    pages = list(_pages(endpoints)) or [[]]
    return [
        dashboard_body(_rows(_heading(base, number, len(pages)), page, place))
        for number, page in enumerate(pages, start=1)
    ]


def _pages(endpoints: Iterable[Overseen]) -> Iterator[list[Overseen]]:
    page: list[Overseen] = []
    room = _VARIANTS_OF_A_PAGE
    for endpoint in endpoints:
        needed = len(endpoint.watched.variants)
        if needed > room:
            yield page
            page, room = [], _VARIANTS_OF_A_PAGE
        page.append(endpoint)
        room -= needed
    if page:
        yield page


def _heading(base: str, number: int, pages: int) -> str:
    return f"# {base}\n" + (f"Page {number} of {pages}" if pages > 1 else "All endpoints")


def _rows(heading: str, endpoints: Sequence[Overseen], place: Place) -> Iterator[Sequence[Widget]]:
    yield [text(heading)]
    names = [name for endpoint in endpoints for name in endpoint.alarm_names]
    for widget in alarm_states("Alarms that ring now", names, place=place, only_ringing=True):
        yield [widget]
    for start in range(0, len(endpoints), _ENDPOINTS_OF_A_CHART):
        yield from _charts(endpoints[start : start + _ENDPOINTS_OF_A_CHART], place)
    unpriced = sorted({kind for endpoint in endpoints for kind in charts.unpriced(endpoint.watched)})
    if unpriced:
        yield [
            text(
                f"**Cost** is not shown of endpoints on {', '.join(unpriced)}: what an hour of those costs "
                "is not known. Write it under `prices` in the environment's file."
            )
        ]


def _charts(endpoints: Sequence[Overseen], place: Place) -> Iterator[Sequence[Widget]]:
    yield [
        chart("Requests", _each(endpoints, _traffic), place=place),
        chart("The slowest hundredth takes", _each(endpoints, _latency), place=place, unit="ms"),
        chart("Errors", _each(endpoints, _errors), place=place),
    ]
    row = [chart("Machines", _each(endpoints, _machines), place=place)]
    priced = [endpoint for endpoint in endpoints if not charts.unpriced(endpoint.watched)]
    if priced:
        row += [
            chart("Cost of an hour", _each(priced, _cost_of_an_hour), place=place),
            chart("Cost of 1,000 requests", _each(priced, _cost_of_a_thousand), place=place),
        ]
    yield row


def _each(endpoints: Iterable[Overseen], lines: Callable[[Overseen, str], Iterable[Line]]) -> list[Line]:
    """The lines of all, with ids of their own."""
    return [line for index, endpoint in enumerate(endpoints) for line in lines(endpoint, f"e{index}")]


def _traffic(endpoint: Overseen, key: str) -> Iterator[Line]:
    return _named(endpoint, charts.traffic_lines(endpoint.watched))


def _latency(endpoint: Overseen, key: str) -> Iterator[Line]:
    for index, variant in enumerate(endpoint.watched.variants):
        series = Series(request_metric(endpoint.watched, variant, "ModelLatency"), "p99")
        lines = charts.scaled(f"{key}_{index}", variant.name, series, MICROSECONDS_PER_MS)
        yield from _named(endpoint, lines)


def _errors(endpoint: Overseen, key: str) -> Iterator[Line]:
    names = [("Invocation5XXErrors", "5xx"), ("Invocation4XXErrors", "4xx")]
    return _named(endpoint, charts.request_lines(endpoint.watched, names, "Sum"))


def _machines(endpoint: Overseen, key: str) -> Iterator[Line]:
    return _named(endpoint, charts.count_lines(endpoint.watched, key=key))


def _cost_of_an_hour(endpoint: Overseen, key: str) -> Iterator[Line]:
    return charts.cost_per_hour_lines(endpoint.watched, key=key, label=endpoint.name)


def _cost_of_a_thousand(endpoint: Overseen, key: str) -> Iterator[Line]:
    return charts.cost_per_thousand_lines(endpoint.watched, key=key, label=endpoint.name)


def _named(endpoint: Overseen, lines: Iterable[Line]) -> Iterator[Line]:
    """The same lines, told apart from those of other endpoints."""
    return (replace(line, label=f"{endpoint.name} {line.label}") for line in lines)
