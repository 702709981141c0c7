"""Read PutMetricAlarm requests; reject alarms that would behave differently than on AWS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from tritonstack_local.cloudwatch.alarms.state import COMPARISONS, TREATMENTS, Condition, Window
from tritonstack_local.cloudwatch.metric_math import (
    ExpressionError,
    Inputs,
    Node,
    Series,
    check,
    evaluate,
    parse_expression,
)
from tritonstack_local.cloudwatch.statistics import PLAIN_STATISTICS, Summary, percentile_of, statistic_named
from tritonstack_local.cloudwatch.store import BUCKET_S, MetricKey, MetricStore, Span, key_of
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale

_MINUTE_S = 60
_DAY_S = 86_400
_SHORT_PERIODS = (10, 20, 30)

NOT_SUPPORTED: Mapping[str, str] = {
    "ThresholdMetricId": "there is no anomaly detection",
    "EvaluationCriteria": "PromQL is not evaluated",
    "EvaluationInterval": "alarms are evaluated several times a minute",
    "EvaluationWindow": "windows move by one minute",
    "WarmUpConfiguration": "alarms are evaluated from their first minute",
    "ActionConfiguration": "actions run once, when the state changes",
}
"""Rejected parameters of PutMetricAlarm, with the reasons."""


class AlarmRejectedError(Exception):
    """An alarm that would behave differently than on AWS; the message gives the reason."""


@dataclass(frozen=True)
class Query:
    """One series of an alarm: a metric or an expression."""

    id: str
    metric: MetricKey | None = None
    statistic: str = ""
    unit: str | None = None
    expression: Node | None = None


@dataclass(frozen=True)
class AlarmSpec:
    """The specification of an alarm."""

    condition: Condition
    period_s: int
    queries: tuple[Query, ...]
    watched: Query
    waits_for_samples: bool = False
    """Whether a percentile of too few values keeps the state."""

    @property
    def metrics(self) -> Iterator[MetricKey]:
        """All metrics it uses."""
        return (query.metric for query in self.queries if query.metric is not None)

    def span(self, now: float, time_scale: TimeScale) -> Span:
        """Return the windows to evaluate: they end with the last full minute (short periods: ten seconds).

        As in CloudWatch, they move by one minute, and a value counts after its minute has passed.
        """
        step, length = (
            time_scale.lasting(min(_step(self.period_s), _MINUTE_S)),
            time_scale.lasting(self.period_s),
        )
        count = self.condition.windows
        return Span(floor(now / step) * step - count * length, length, count)

    def observe(self, store: MetricStore, scope: Scope, span: Span) -> list[Window] | None:
        """Return the windows with their values; None if there are too few values for a percentile."""
        held = {
            query.id: self._summaries(query, store, scope, span) for query in self.queries if query.metric
        }
        if self.waits_for_samples and self._too_few(held[self.watched.id]):
            return None
        series = {query.id: _series(query, held[query.id]) for query in self.queries if query.metric}
        samples: Sequence[float | None] = (None,) * span.count
        if self.watched.expression is None:
            values = series[self.watched.id]
            samples = [summary.count if summary else None for summary in held[self.watched.id]]
        else:
            values = evaluate(self.watched.expression, self._inputs(series))
        return [Window(*window) for window in zip(span.starts, values, samples, strict=True)]

    def check(self) -> None:
        """Reject an expression that can never be computed."""
        expression = self.watched.expression
        if expression is None:
            return
        count = self.condition.windows
        try:
            check(
                expression,
                self._inputs({query.id: (1.0,) * count for query in self.queries if query.metric}),
            )
        except ExpressionError as error:
            raise AlarmRejectedError(f"Metrics: {self.watched.id}: {error}") from error

    def _inputs(self, series: Mapping[str, Series]) -> Inputs:
        expressions = {query.id: query.expression for query in self.queries if query.expression}
        return Inputs(series, expressions)

    def _summaries(self, query: Query, store: MetricStore, scope: Scope, span: Span) -> list[Summary | None]:
        assert query.metric is not None  # noqa: S101 - called for metrics only
        return store.windows(scope, query.metric, span, unit=query.unit)

    def _too_few(self, summaries: Sequence[Summary | None]) -> bool:
        share = percentile_of(self.watched.statistic)
        if share is None or not 0 < share < 1:
            return False
        evaluated = [summary.count for summary in summaries if summary][-self.condition.periods :]
        count = sum(evaluated)
        return 0 < count < 10 / (1 - share if share >= 0.5 else share)


def _series(query: Query, summaries: Sequence[Summary | None]) -> Series:
    compute = statistic_named(query.statistic)
    return tuple(None if summary is None or compute is None else compute(summary) for summary in summaries)


def _step(period_s: int) -> int:
    return BUCKET_S if period_s < _MINUTE_S else _MINUTE_S


def read_alarm(fields: Mapping[str, Any]) -> AlarmSpec:
    """Read a PutMetricAlarm request, or raise AlarmRejectedError."""
    for name, why in NOT_SUPPORTED.items():
        if fields.get(name):
            raise AlarmRejectedError(f"The local cloud does not support {name} in PutMetricAlarm: {why}.")
    condition = _condition(fields)
    metrics = fields.get("Metrics")
    if bool(metrics) == bool(fields.get("MetricName")):
        raise AlarmRejectedError("Exactly one of MetricName and Metrics must be specified")
    if metrics:
        queries, watched, period_s = _queries(metrics)
    else:
        period_s = _needed(fields, "Period")
        watched = _query("", fields, _statistic(fields), fields)
        queries = (watched,)
    _check_time(period_s, condition.periods)
    ignored = fields.get("EvaluateLowSampleCountPercentile") == "ignore"
    spec = AlarmSpec(condition, period_s, queries, watched, ignored and watched.expression is None)
    spec.check()
    return spec


def _condition(fields: Mapping[str, Any]) -> Condition:
    comparison = fields.get("ComparisonOperator", "")
    if comparison not in COMPARISONS:
        raise AlarmRejectedError(
            f"The local cloud does not support the ComparisonOperator {comparison!r}: there is no anomaly "
            f"detection. It offers {', '.join(COMPARISONS)}."
        )
    missing = fields.get("TreatMissingData") or "missing"
    if missing not in TREATMENTS:
        raise AlarmRejectedError(f"TreatMissingData {missing!r} is none of {', '.join(TREATMENTS)}")
    periods, datapoints = int(_needed(fields, "EvaluationPeriods")), fields.get("DatapointsToAlarm")
    if datapoints is not None and not 1 <= int(datapoints) <= periods:
        raise AlarmRejectedError("DatapointsToAlarm must be between 1 and EvaluationPeriods")
    threshold = float(_needed(fields, "Threshold"))
    return Condition(comparison, threshold, periods, datapoints and int(datapoints), missing)


def _needed(fields: Mapping[str, Any], name: str) -> Any:
    if fields.get(name) is None:
        raise AlarmRejectedError(f"The parameter {name} is required")
    return fields[name]


def _statistic(fields: Mapping[str, Any]) -> str:
    plain, extended = fields.get("Statistic"), fields.get("ExtendedStatistic")
    if bool(plain) == bool(extended):
        raise AlarmRejectedError("Exactly one of Statistic and ExtendedStatistic must be specified")
    if plain and plain not in PLAIN_STATISTICS:
        raise AlarmRejectedError(f"Statistic {plain!r} is none of {', '.join(PLAIN_STATISTICS)}")
    return str(plain or extended)


def _query(name: str, metric: Mapping[str, Any], statistic: str, stat: Mapping[str, Any]) -> Query:
    if statistic_named(statistic) is None:
        raise AlarmRejectedError(f"The value {statistic} for parameter ExtendedStatistic is not supported.")
    key = key_of(_needed(metric, "Namespace"), _needed(metric, "MetricName"), metric.get("Dimensions") or [])
    return Query(name, key, statistic, stat.get("Unit"))


def _queries(items: Sequence[Mapping[str, Any]]) -> tuple[tuple[Query, ...], Query, int]:
    queries = tuple(map(_one_query, items))
    shown = [query for query, item in zip(queries, items, strict=True) if item.get("ReturnData", True)]
    if len(shown) != 1:
        raise AlarmRejectedError("Exactly one element of the metrics list should return data")
    if len({query.id for query in queries}) < len(queries):
        raise AlarmRejectedError("Each element of the metrics list needs an Id of its own")
    periods = {int(item["MetricStat"]["Period"]) for item in items if item.get("MetricStat")}
    if not periods:
        raise AlarmRejectedError("An alarm needs at least one metric; its expressions alone have no data")
    if len(periods) > 1:
        raise AlarmRejectedError("The local cloud requires the same Period for all metrics of an alarm")
    return queries, shown[0], periods.pop()


def _one_query(item: Mapping[str, Any]) -> Query:
    if item.get("AccountId"):
        raise AlarmRejectedError(
            "The local cloud does not support AccountId in PutMetricAlarm: use the own account."
        )
    if stat := item.get("MetricStat"):
        return _query(item["Id"], stat["Metric"], stat["Stat"], stat)
    text = _needed(item, "Expression")
    if text.lstrip().upper().startswith("SELECT"):
        raise AlarmRejectedError("The local cloud does not support Metrics Insights queries in alarms.")
    try:
        return Query(item["Id"], expression=parse_expression(text))
    except ExpressionError as error:
        raise AlarmRejectedError(f"Metrics: {item['Id']}: {error}") from error


def _check_time(period_s: int, periods: int) -> None:
    if period_s not in _SHORT_PERIODS and (period_s < _MINUTE_S or period_s % _MINUTE_S):
        raise AlarmRejectedError("Period must be 10, 20, 30 or a multiple of 60")
    if period_s * periods > _DAY_S:
        raise AlarmRejectedError(
            "Metrics cannot be checked across more than a day (EvaluationPeriods * Period)"
        )
