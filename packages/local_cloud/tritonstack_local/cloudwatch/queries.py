"""The MetricDataQueries of alarms and GetMetricData: each is a metric or an expression over others."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudwatch.metric_math import (
    ExpressionError,
    Inputs,
    Series,
    evaluate,
    parse_expression,
)
from tritonstack_local.cloudwatch.statistics import statistic_named
from tritonstack_local.cloudwatch.store import METRICS, MetricKey, Span, key_of
from tritonstack_local.scope import Scope


class QueryError(Exception):
    """A query that cannot be answered as on AWS; the message gives the reason."""


@dataclass(frozen=True)
class Query:
    """One series: a statistic of a metric, or an expression."""

    id: str
    period_s: int | None = None
    metric: MetricKey | None = None
    statistic: str = ""
    unit: str | None = None
    expression: ast.expr | None = None


def read_query(item: Mapping[str, Any]) -> Query:
    """Read a MetricDataQuery, or raise QueryError."""
    if item.get("AccountId"):
        raise QueryError("The local cloud does not support AccountId: use the own account.")
    if stat := item.get("MetricStat"):
        return metric_query(item["Id"], {**stat, **stat["Metric"]}, stat["Stat"])
    text = item.get("Expression") or ""
    if text.lstrip().upper().startswith("SELECT"):
        raise QueryError("The local cloud does not support Metrics Insights queries.")
    try:
        return Query(item["Id"], item.get("Period"), expression=parse_expression(text))
    except ExpressionError as error:
        raise QueryError(f"Metrics: {item['Id']}: {error}") from error


def metric_query(name: str, fields: Mapping[str, Any], statistic: str) -> Query:
    """Return the query of a metric, given as in PutMetricAlarm."""
    for field in ("Namespace", "MetricName", "Period"):
        if fields.get(field) is None:
            raise QueryError(f"The parameter {field} is required")
    if statistic_named(statistic) is None:
        raise QueryError(f"The value {statistic} for parameter ExtendedStatistic is not supported.")
    return Query(name, int(fields["Period"]), key_of(fields), statistic, fields.get("Unit"))


def compute(query: Query, queries: Sequence[Query], scope: Scope, span: Span) -> Series:
    """Return a query's values in windows, which all metrics of its expression share."""
    if query.expression is None:
        return _series(query, scope, span)
    return _evaluated(
        query, queries, {other.id: _series(other, scope, span) for other in queries if other.metric}
    )


def check(query: Query, queries: Sequence[Query]) -> None:
    """Raise QueryError for an expression that can never be computed."""
    if query.expression is not None:
        _evaluated(query, queries, {other.id: (1.0,) for other in queries if other.metric})


def _evaluated(query: Query, queries: Sequence[Query], metrics: Mapping[str, Series]) -> Series:
    expressions = {other.id: other.expression for other in queries if other.expression is not None}
    try:
        return evaluate(expressions[query.id], Inputs(dict(metrics), expressions))
    except ExpressionError as error:
        raise QueryError(f"Metrics: {query.id}: {error}") from error


def _series(query: Query, scope: Scope, span: Span) -> Series:
    compute_statistic = statistic_named(query.statistic)
    if query.metric is None or compute_statistic is None:
        return (None,) * span.count
    windows = METRICS.windows(scope, query.metric, span, unit=query.unit)
    return tuple(None if summary is None else compute_statistic(summary) for summary in windows)
