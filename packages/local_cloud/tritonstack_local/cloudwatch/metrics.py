"""CloudWatch's metric actions on the metric store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil, floor
from typing import Any, NoReturn

from moto.cloudwatch.exceptions import (
    InvalidParameterCombination,
    InvalidParameterValue,
    ValidationError,
)
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

from tritonstack_local.cloudwatch.queries import Query, QueryError, compute, read_query
from tritonstack_local.cloudwatch.store import METRICS, MetricKey, Span, Summary, key_of, moment, seconds
from tritonstack_local.moto_patches import correct
from tritonstack_local.scope import Scope

_MINUTE_S = 60
_PAGE = 500
_DATAPOINTS = 100_800
_HOURS_AHEAD_S = 2 * 3600


def apply() -> None:
    """Correct moto."""
    correct(
        (CloudWatchBackend, "put_metric_data", _put_metric_data),
        (CloudWatchBackend, "get_metric_data", _get_metric_data),
        (CloudWatchResponse, "get_metric_statistics", _reject_get_metric_statistics),
        (CloudWatchResponse, "list_metrics", _answer_list_metrics),
    )


def _put_metric_data(backend: CloudWatchBackend, namespace: str, metric_data: list[dict[str, Any]]) -> None:
    for number, item in enumerate(metric_data, 1):
        backend._validate_parameters_put_metric_data(item, number)
        if _at(item) > time.time() + _HOURS_AHEAD_S:
            raise InvalidParameterValue(
                f"The parameter MetricData.member.{number}.Timestamp must specify a time no more than two "
                "hours in the future."
            )
    for item in metric_data:
        key = key_of({"Namespace": namespace, **item})
        METRICS.put(_scope(backend), key, item.get("Unit") or "None", _values(item), at=_at(item))


def _values(item: Mapping[str, Any]) -> Summary:
    if item.get("StatisticValues"):
        raise ValidationError("The local cloud does not support StatisticValues; publish Values and Counts.")
    summary, values = Summary(), item.get("Values") or [item.get("Value", 0)]
    for value, times in zip(values, item.get("Counts") or [1] * len(values), strict=True):
        summary.add(float(value), float(times))
    return summary


def _get_metric_data(
    backend: CloudWatchBackend,
    queries: list[dict[str, Any]],
    start_time: datetime,
    end_time: datetime,
    scan_by: str = "TimestampDescending",
) -> list[dict[str, Any]]:
    start, end = seconds(start_time), seconds(end_time)
    try:
        read = [read_query(query) for query in queries]
        return [
            _result(query, item, read, (start, end, scan_by), _scope(backend))
            for query, item in zip(read, queries, strict=True)
            if item.get("ReturnData", True)
        ]
    except QueryError as error:
        raise ValidationError(str(error)) from error


def _result(
    query: Query,
    item: Mapping[str, Any],
    queries: Sequence[Query],
    window: tuple[float, float, str],
    scope: Scope,
) -> dict[str, Any]:
    start, end, scan_by = window
    periods = {other.period_s for other in queries if other.metric is not None and other.period_s}
    period = query.period_s or max(periods, default=_MINUTE_S)
    if query.expression is not None and periods - {period}:
        raise QueryError("The local cloud requires the same Period for all metrics of an expression.")
    span = _span(start, end, period)
    values = compute(query, queries, scope, span)
    points = [(moment(at), value) for at, value in zip(span.starts, values, strict=True) if value is not None]
    if scan_by == "TimestampDescending":
        points.reverse()
    name = query.metric.name if query.metric is not None else query.id
    label = f"{name} {query.statistic}" if query.metric is not None and len(queries) > 1 else name
    return {
        "id": query.id,
        "label": item.get("Label") or label,
        "timestamps": [at for at, _ in points],
        "values": [value for _, value in points],
        "status_code": "Complete",
    }


def _reject_get_metric_statistics(_response: Any) -> NoReturn:
    raise ValidationError("The local cloud does not support GetMetricStatistics; use GetMetricData.")


def _answer_list_metrics(response: Any) -> ActionResult:
    request = response.params
    dimensions = [(item["Name"], item.get("Value")) for item in request.get("Dimensions") or []]
    keys = [
        {
            "Namespace": key.namespace,
            "MetricName": key.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in sorted(key.dimensions)],
        }
        for key in METRICS.keys(_scope(response.cloudwatch_backend))
        if request.get("Namespace", key.namespace) == key.namespace
        and request.get("MetricName", key.name) == key.name
        and all(_has(key, *dimension) for dimension in dimensions)
    ]
    start = int(request.get("NextToken") or 0)
    token = str(start + _PAGE) if start + _PAGE < len(keys) else None
    return ActionResult({"Metrics": keys[start : start + _PAGE], "NextToken": token})


def _has(key: MetricKey, name: str, value: str | None) -> bool:
    return any(name == held and value in {None, expected} for held, expected in key.dimensions)


def _span(start: float, end: float, period: int) -> Span:
    """Return the windows of a request; as on AWS, its start is rounded down to the minute."""
    if start >= end:
        raise ValidationError("The parameter EndTime must be greater than StartTime.")
    step = min(_MINUTE_S, period)
    first = floor(start / step) * step
    count = ceil((end - first) / period)
    if count > _DATAPOINTS:
        raise InvalidParameterCombination(
            f"You have requested up to {count} datapoints, which exceeds the limit of {_DATAPOINTS}."
        )
    return Span(first, period, count)


def _at(item: Mapping[str, Any]) -> float:
    timestamp = item.get("Timestamp")
    return time.time() if timestamp is None else seconds(timestamp)


def _scope(backend: CloudWatchBackend) -> Scope:
    return Scope(backend.account_id, backend.region_name)
