"""CloudWatch's metric actions on the metric store, and publishing for the services implemented here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil, floor
from typing import Any

from moto.cloudwatch.exceptions import (
    InvalidParameterCombination,
    InvalidParameterValue,
    ValidationError,
)
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult

from tritonstack_local.cloudwatch.metric_math import (
    ExpressionError,
    Inputs,
    Series,
    evaluate,
    parse_expression,
)
from tritonstack_local.cloudwatch.statistics import Statistic, Summary, statistic_named
from tritonstack_local.cloudwatch.store import METRICS, MetricKey, Span, dimensions_of, key_of
from tritonstack_local.cloudwatch.timestamps import moment, seconds
from tritonstack_local.moto_patches.patching import correct
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
        (CloudWatchResponse, "get_metric_statistics", _answer_get_metric_statistics),
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
        key = key_of(namespace, item["MetricName"], item.get("Dimensions") or [])
        METRICS.put(_scope(backend), key, item.get("Unit") or "None", _values(item), at=_at(item))


def _values(item: Mapping[str, Any]) -> Summary:
    summary = Summary()
    if item.get("StatisticValues"):
        statistics = item["StatisticValues"]
        summary.add_set(
            count=float(statistics["SampleCount"]),
            total=float(statistics["Sum"]),
            low=float(statistics["Minimum"]),
            high=float(statistics["Maximum"]),
        )
        return summary
    values = item.get("Values") or [item.get("Value", 0)]
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
    if start >= end:
        raise ValidationError("The parameter EndTime must be greater than StartTime.")
    periods = [int(query["MetricStat"]["Period"]) for query in queries if "MetricStat" in query]
    periods += [int(query["Period"]) for query in queries if query.get("Period")]
    spans = {period: _span(start, end, period) for period in periods or [_MINUTE_S]}
    metrics = {
        query["Id"]: _metric_series(_scope(backend), query["MetricStat"], spans)
        for query in queries
        if "MetricStat" in query
    }
    answered = [query for query in queries if query.get("ReturnData", True)]
    return [_result(query, queries, metrics, spans, scan_by) for query in answered]


def _metric_series(scope: Scope, stat: Mapping[str, Any], spans: Mapping[int, Span]) -> Series:
    compute, metric = _statistic(stat["Stat"]), stat["Metric"]
    key = key_of(metric["Namespace"], metric["MetricName"], metric.get("Dimensions") or [])
    windows = METRICS.windows(scope, key, spans[int(stat["Period"])], unit=stat.get("Unit"))
    return tuple(None if summary is None else compute(summary) for summary in windows)


def _result(
    query: Mapping[str, Any],
    queries: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Series],
    spans: Mapping[int, Span],
    scan_by: str,
) -> dict[str, Any]:
    stat = query.get("MetricStat")
    if stat:
        period, series = int(stat["Period"]), metrics[query["Id"]]
        label = (
            f"{stat['Metric']['MetricName']} {stat['Stat']}"
            if len(queries) > 1
            else stat["Metric"]["MetricName"]
        )
    else:
        period, label = int(query.get("Period") or max(spans)), query["Id"]
        series = _computed(query, queries, metrics, spans[period], period)
    points = [
        (moment(at), value)
        for at, value in zip(spans[period].starts, series, strict=True)
        if value is not None
    ]
    if scan_by == "TimestampDescending":
        points.reverse()
    return {
        "id": query["Id"],
        "label": query.get("Label") or label,
        "timestamps": [at for at, _ in points],
        "values": [value for _, value in points],
        "status_code": "Complete",
    }


def _computed(
    query: Mapping[str, Any],
    queries: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Series],
    span: Span,
    period: int,
) -> Series:
    if query["Expression"].lstrip().upper().startswith("SELECT"):
        raise ValidationError("The local cloud does not support Metrics Insights queries.")
    if len({len(series) for series in metrics.values()} | {span.count}) > 1:
        raise ValidationError("The local cloud requires the same Period for all metrics of an expression.")
    try:
        nodes = {item["Id"]: parse_expression(item["Expression"]) for item in queries if "Expression" in item}
        return evaluate(nodes[query["Id"]], Inputs(metrics, nodes))
    except ExpressionError as error:
        raise ValidationError(f"Error in expression '{query['Id']}': {error}") from error


def _answer_get_metric_statistics(response: Any) -> ActionResult:
    request = response.params
    names = [*request.get("Statistics", []), *request.get("ExtendedStatistics", [])]
    if not names:
        raise InvalidParameterCombination("Must specify either Statistics or ExtendedStatistics")
    start, end = seconds(request["StartTime"]), seconds(request["EndTime"])
    if start >= end:
        raise InvalidParameterValue("The parameter StartTime must be less than the parameter EndTime.")
    statistics = {name: _statistic(name) for name in names}
    span = _span(start, end, int(request["Period"]))
    key = key_of(request["Namespace"], request["MetricName"], request.get("Dimensions") or [])
    scope = _scope(response.cloudwatch_backend)
    plain = request.get("Statistics", [])
    datapoints = [
        _datapoint(at, summary, unit, statistics, plain)
        for unit in ([request["Unit"]] if request.get("Unit") else METRICS.units(scope, key))
        for at, summary in zip(span.starts, METRICS.windows(scope, key, span, unit=unit), strict=True)
        if summary is not None
    ]
    return ActionResult({"Label": request["MetricName"], "Datapoints": datapoints})


def _datapoint(
    at: float, summary: Summary, unit: str, statistics: Mapping[str, Statistic], plain: Sequence[str]
) -> dict[str, Any]:
    values = {name: compute(summary) for name, compute in statistics.items()}
    extended = {name: value for name, value in values.items() if name not in plain and value is not None}
    shown: dict[str, Any] = {"Timestamp": moment(at), "Unit": unit, **{name: values[name] for name in plain}}
    return shown | ({"ExtendedStatistics": extended} if extended else {})


def _answer_list_metrics(response: Any) -> ActionResult:
    request = response.params
    dimensions = [(item["Name"], item.get("Value")) for item in request.get("Dimensions") or []]
    keys = [
        {"Namespace": key.namespace, "MetricName": key.name, "Dimensions": list(dimensions_of(key))}
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
    step = min(_MINUTE_S, period)
    first = floor(start / step) * step
    count = ceil((end - first) / period)
    if count > _DATAPOINTS:
        raise InvalidParameterCombination(
            f"You have requested up to {count} datapoints, which exceeds the limit of {_DATAPOINTS}."
        )
    return Span(first, period, count)


def _statistic(name: str) -> Statistic:
    statistic = statistic_named(name)
    if statistic is None:
        raise InvalidParameterValue(f"The value {name} for parameter Stat is not supported.")
    return statistic


def _at(item: Mapping[str, Any]) -> float:
    timestamp = item.get("Timestamp")
    return time.time() if timestamp is None else seconds(timestamp)


def _scope(backend: CloudWatchBackend) -> Scope:
    return Scope(backend.account_id, backend.region_name)


@dataclass(frozen=True)
class Datum:
    """A measured value with the number of times it was measured."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    value: float
    unit: str = "None"
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    count: int = 1
    """Number of measurements."""

    @property
    def key(self) -> MetricKey:
        """The metric it belongs to."""
        return MetricKey(self.namespace, self.name, frozenset(self.dimensions.items()))


class Metrics:
    """Publishes values to this process's metric store. Thread-safe."""

    def __init__(self) -> None:
        apply()

    def put(self, scope: Scope, data: Iterable[Datum]) -> None:
        """Publish values."""
        for datum in data:
            values = Summary()
            values.add(datum.value, datum.count)
            METRICS.put(scope, datum.key, datum.unit, values, at=datum.time.timestamp())
