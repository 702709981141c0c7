"""Correct moto's CloudWatch Logs: metric filters match log lines and publish values.

Patterns for JSON (`{ $.code = 500 }`), for columns (`[ip, user, ...]`), and with excluded terms (`-debug`)
are rejected.

Also, moto allows two filters with one name, keeps the filters of deleted groups, and returns every line for
search patterns it does not support. Its FilterLogEvents ignores logStreamNamePrefix. log_streams.py keeps
the lines themselves.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.metric_filters import MetricFilters
from moto.logs.models import LogsBackend
from moto.logs.responses import LogsResponse

from tritonstack_local.cloudwatch import log_streams
from tritonstack_local.cloudwatch.store import METRICS, MetricKey
from tritonstack_local.moto_patches import correct
from tritonstack_local.scope import Scope

_TERM = re.compile(r'\s*(?P<sign>\??)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))')
_WORD = re.compile(r"\w+")
# Characters that AWS allows in an expression; groups are not allowed.
_EXPRESSION = re.compile(r"[A-Za-z0-9:_#=@/;,\-^$?\[\]{}|\\*+.]*")


class PatternError(Exception):
    """An invalid or unsupported pattern."""


@dataclass(frozen=True)
class FilterPattern:
    """Conditions on a line: all terms, one of the options, and the expression."""

    terms: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    expression: re.Pattern[str] | None = None

    def matches(self, line: str) -> bool:
        """Return whether a line matches. Case-sensitive."""
        return (
            all(term in line for term in self.terms)
            and (not self.options or any(term in line for term in self.options))
            and (self.expression is None or self.expression.search(line) is not None)
        )


def parse_pattern(text: str) -> FilterPattern:
    """Parse a pattern, or raise PatternError. The empty pattern matches every line."""
    stripped = text.strip()
    if stripped[:1] in {"{", "["}:
        kind = "JSON" if stripped[0] == "{" else "columns"
        raise PatternError(
            f"The local cloud does not support filter patterns for {kind}, only for plain text."
        )
    if stripped.startswith("%"):
        return FilterPattern(expression=_expression(stripped))
    terms: dict[str, list[str]] = {"": [], "?": []}
    for sign, term in _terms(stripped):
        terms[sign].append(term)
    if terms["?"] and terms[""]:
        raise PatternError(
            "A filter pattern with optional terms (?) beside others is read by CloudWatch Logs without its "
            "question marks; write what is meant."
        )
    return FilterPattern(tuple(terms[""]), tuple(terms["?"]))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise PatternError(f"Invalid character(s) in term '{text[position:]}'")
        position = match.end()
        word = match["word"]
        if word is not None and _WORD.fullmatch(word) is None:
            raise PatternError(f"Invalid character(s) in term '{word}'; use double quotes")
        yield match["sign"], re.sub(r"\\(.)", r"\1", match["phrase"]) if word is None else word


def _expression(text: str) -> re.Pattern[str]:
    inner = text[1:-1]
    if len(text) < 2 or not text.endswith("%") or "%" in inner:
        raise PatternError("The local cloud supports a single expression between two % signs.")
    if _EXPRESSION.fullmatch(inner) is None:
        raise PatternError(
            "Invalid character(s) in the expression: CloudWatch Logs takes no groups and no spaces"
        )
    if "[^" in inner:
        raise PatternError("CloudWatch Logs documents character sets and ranges, but no negated ones ([^a])")
    try:
        return re.compile(inner, re.ASCII)
    except re.error as error:
        raise PatternError(f"Invalid expression: {error}") from error


_put_log_events = LogsBackend.put_log_events
_delete_log_group = LogsBackend.delete_log_group
_EXPRESSIONS_LIMIT = 5
_MOST_EVENTS = 10_000


def apply() -> None:
    """Correct moto."""
    correct(
        (LogsBackend, "put_log_events", _put_and_count),
        (LogsBackend, "put_metric_filter", _put_metric_filter),
        (LogsBackend, "delete_log_group", _delete_group_and_filters),
        (MetricFilters, "delete_filter", _delete_filter),
        (models, "EventMessageFilter", _message_filter),
        (LogsResponse, "filter_log_events", _filter_log_events),
        *log_streams.CORRECTIONS,
    )


def _put_and_count(
    backend: LogsBackend, log_group_name: str, log_stream_name: str, log_events: list[dict[str, Any]]
) -> Any:
    answer = _put_log_events(backend, log_group_name, log_stream_name, log_events)
    filters = [item for item in backend.filters.metric_filters if item["logGroupName"] == log_group_name]
    scope = Scope(backend.account_id, backend.region_name)
    for item in filters:
        _count(scope, item, log_events)
    return answer


def _count(scope: Scope, metric_filter: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
    """Publish a value per matching line; if none matches, the filter's default value."""
    pattern = _pattern(metric_filter["filterPattern"])
    for transformation in metric_filter["metricTransformations"]:
        key = MetricKey(transformation["metricNamespace"], transformation["metricName"])
        unit, default = transformation.get("unit") or "None", transformation.get("defaultValue")
        matching = [event for event in events if pattern.matches(event["message"])]
        for event in matching:
            METRICS.add(scope, key, unit, float(transformation["metricValue"]), at=event["timestamp"] / 1000)
        now = time.time()
        # The default value is published once per minute.
        if not matching and default is not None and METRICS.newest(scope, key) < now - now % METRICS.minute_s:
            METRICS.add(scope, key, unit, float(default), at=now)


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
        metric_filter
        for metric_filter in backend.filters.metric_filters
        if (metric_filter["filterName"], metric_filter["logGroupName"]) != (filter_name, log_group_name)
    ]
    try:
        expressions = sum(
            item["logGroupName"] == log_group_name and _pattern(item["filterPattern"]).expression is not None
            for item in others
        )
        if _pattern(filter_pattern).expression is not None and expressions >= _EXPRESSIONS_LIMIT:
            raise PatternError(f"A log group takes {_EXPRESSIONS_LIMIT} filters with expressions at most")
        for transformation in metric_transformations:
            _check_transformation(transformation)
    except PatternError as error:
        raise InvalidParameterException(str(error)) from error
    made = {
        "filterName": filter_name,
        "filterPattern": filter_pattern,
        "logGroupName": log_group_name,
        "metricTransformations": metric_transformations,
        "creationTime": int(time.time() * 1000),
    }
    backend.filters.metric_filters = [*others, made]


def _check_transformation(transformation: Mapping[str, Any]) -> None:
    if transformation.get("dimensions"):
        raise PatternError(
            "The local cloud does not support dimensions of metric filters, which refer to fields."
        )
    try:
        float(transformation["metricValue"])
    except ValueError as error:
        raise PatternError(
            f"The local cloud does not support metricValue {transformation['metricValue']!r}, only "
            "numbers, not values from lines."
        ) from error


def _delete_filter(
    filters: MetricFilters, filter_name: str | None = None, log_group_name: str | None = None
) -> list[dict[str, Any]]:
    kept = [
        metric_filter
        for metric_filter in filters.metric_filters
        if (metric_filter["filterName"], metric_filter["logGroupName"]) != (filter_name, log_group_name)
    ]
    if len(kept) == len(filters.metric_filters):
        raise ResourceNotFoundException("The specified metric filter does not exist.")
    filters.metric_filters = kept
    return kept


def _delete_group_and_filters(backend: LogsBackend, log_group_name: str) -> None:
    group = backend.groups.get(log_group_name)
    _delete_log_group(backend, log_group_name)
    log_streams.forget_group(group)
    filters = backend.filters
    filters.metric_filters = [
        item for item in filters.metric_filters if item["logGroupName"] != log_group_name
    ]


def _message_filter(pattern: str | None) -> FilterPattern:
    """The pattern of FilterLogEvents."""
    try:
        return _pattern(pattern or "")
    except PatternError as error:
        raise InvalidParameterException(str(error)) from error


def _filter_log_events(response: LogsResponse) -> str:
    """Answer FilterLogEvents: the streams of a prefix, and the events of all streams in order of time."""
    parameter = response._get_param
    backend, group = response.logs_backend, parameter("logGroupName")
    names, prefix = parameter("logStreamNames"), parameter("logStreamNamePrefix")
    if names and prefix:
        raise InvalidParameterException("logStreamNamePrefix and logStreamNames are mutually exclusive.")
    if prefix and group in backend.groups:
        names = [name for name in backend.groups[group].streams if name.startswith(prefix)]
        if not names:
            return json.dumps({"events": [], "searchedLogStreams": []})
    limit = parameter("limit")
    if group not in backend.groups:
        raise ResourceNotFoundException
    if limit and limit > _MOST_EVENTS:
        raise InvalidParameterException(
            constraint=f"Member must have value less than or equal to {_MOST_EVENTS}",
            parameter="limit",
            value=limit,
        )
    events, token = log_streams.filter_group(
        backend.groups[group],
        _message_filter(parameter("filterPattern")).matches,
        names=names or [],
        start_time=parameter("startTime"),
        end_time=parameter("endTime"),
        limit=limit,
        token=parameter("nextToken"),
    )
    # AWS stopped listing the searched streams.
    return json.dumps({"events": events, "nextToken": token, "searchedLogStreams": []})


@lru_cache(maxsize=1024)
def _pattern(text: str) -> FilterPattern:
    return parse_pattern(text)
