"""Metric filters as moto's CloudWatch Logs holds them, corrected: moto matches no line with them.

Beside that, moto keeps two filters of one name, and those of a group that has gone; and somebody who searches
a log by a pattern that it does not understand finds every line.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.metric_filters import MetricFilters
from moto.logs.models import LogsBackend

from tritonstack_local.cloudwatch.filter_patterns import FilterPattern, PatternError, parse_pattern
from tritonstack_local.cloudwatch.statistics import Summary
from tritonstack_local.cloudwatch.store import METRICS, MetricKey
from tritonstack_local.corrections import correct
from tritonstack_local.places import Place

_put_log_events = LogsBackend.put_log_events
_delete_log_group = LogsBackend.delete_log_group
_EXPRESSIONS_LIMIT = 5


def apply() -> None:
    """Correct moto."""
    correct(
        (LogsBackend, "put_log_events", _put_and_count),
        (LogsBackend, "put_metric_filter", _put_metric_filter),
        (LogsBackend, "delete_log_group", _delete_group_and_filters),
        (MetricFilters, "delete_filter", _delete_filter),
        (models, "EventMessageFilter", _message_filter),
    )


def _put_and_count(
    backend: LogsBackend, log_group_name: str, log_stream_name: str, log_events: list[dict[str, Any]]
) -> Any:
    answer = _put_log_events(backend, log_group_name, log_stream_name, log_events)
    filters = [held for held in backend.filters.metric_filters if held["logGroupName"] == log_group_name]
    place = Place(backend.account_id, backend.region_name)
    for held in filters:
        _count(place, held, log_events)
    return answer


def _count(place: Place, held: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> None:
    """Publish a value for each line that matches; where none does, the default that the filter may have."""
    pattern = _pattern(held["filterPattern"])
    for transformation in held["metricTransformations"]:
        key = MetricKey(transformation["metricNamespace"], transformation["metricName"])
        unit, found = transformation.get("unit") or "None", False
        for event in events:
            if pattern.matches(event["message"]):
                found = True
                _publish(place, key, unit, float(transformation["metricValue"]), at=event["timestamp"] / 1000)
        default = transformation.get("defaultValue")
        if not found and default is not None:
            _publish_default(place, key, unit, float(default))


def _publish(place: Place, key: MetricKey, unit: str, value: float, *, at: float) -> None:
    values = Summary()
    values.add(value)
    METRICS.put(place, key, unit, values, at=at)


def _publish_default(place: Place, key: MetricKey, unit: str, value: float) -> None:
    """A default is a minute's, however many calls brought its lines."""
    now = time.time()
    if METRICS.newest(place, key) < now - now % METRICS.minute_s:
        _publish(place, key, unit, value, at=now)


def _put_metric_filter(
    backend: LogsBackend,
    filter_name: str,
    filter_pattern: str,
    log_group_name: str,
    metric_transformations: list[dict[str, Any]],
) -> None:
    if log_group_name not in backend.groups:
        raise ResourceNotFoundException("The specified log group does not exist.")
    others = [
        held
        for held in backend.filters.metric_filters
        if (held["filterName"], held["logGroupName"]) != (filter_name, log_group_name)
    ]
    try:
        _check(filter_pattern, log_group_name, others)
        for transformation in metric_transformations:
            _check_transformation(transformation)
    except PatternError as refused:
        raise InvalidParameterException(str(refused)) from refused
    made = {
        "filterName": filter_name,
        "filterPattern": filter_pattern,
        "logGroupName": log_group_name,
        "metricTransformations": metric_transformations,
        "creationTime": int(time.time() * 1000),
    }
    backend.filters.metric_filters = [*others, made]


def _check(pattern: str, group: str, others: Iterable[Mapping[str, Any]]) -> None:
    expressions = [
        held
        for held in others
        if held["logGroupName"] == group and _pattern(held["filterPattern"]).expression
    ]
    if _pattern(pattern).expression and len(expressions) >= _EXPRESSIONS_LIMIT:
        raise PatternError(f"A log group takes {_EXPRESSIONS_LIMIT} filters with expressions at most")


def _check_transformation(given: Mapping[str, Any]) -> None:
    if given.get("dimensions"):
        raise PatternError(
            "The embedded cloud does not offer dimensions of metric filters: they name fields or columns."
        )
    try:
        float(given["metricValue"])
    except ValueError as error:
        raise PatternError(
            f"The embedded cloud does not offer metricValue {given['metricValue']!r}, only numbers: no value "
            "is taken out of lines."
        ) from error


def _delete_filter(
    filters: MetricFilters, filter_name: str | None = None, log_group_name: str | None = None
) -> list[dict[str, Any]]:
    kept = [
        held
        for held in filters.metric_filters
        if (held["filterName"], held["logGroupName"]) != (filter_name, log_group_name)
    ]
    if len(kept) == len(filters.metric_filters):
        raise ResourceNotFoundException("The specified metric filter does not exist.")
    filters.metric_filters = kept
    return kept


def _delete_group_and_filters(backend: LogsBackend, log_group_name: str) -> None:
    _delete_log_group(backend, log_group_name)
    filters = backend.filters
    filters.metric_filters = [
        held for held in filters.metric_filters if held["logGroupName"] != log_group_name
    ]


def _message_filter(pattern: str | None) -> FilterPattern:
    """What FilterLogEvents searches with."""
    try:
        return _pattern(pattern or "")
    except PatternError as refused:
        raise InvalidParameterException(str(refused)) from refused


@lru_cache(maxsize=1024)
def _pattern(text: str) -> FilterPattern:
    return parse_pattern(text)
