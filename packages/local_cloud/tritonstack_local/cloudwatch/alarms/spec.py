"""Read PutMetricAlarm requests; reject alarms that would behave differently than on AWS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from tritonstack_local.cloudwatch.alarms.state import COMPARISONS, TREATMENTS, Condition, Window
from tritonstack_local.cloudwatch.queries import (
    Query,
    QueryError,
    check,
    compute,
    metric_query,
    read_query,
)
from tritonstack_local.cloudwatch.statistics import PLAIN_STATISTICS
from tritonstack_local.cloudwatch.store import BUCKET_S, MetricKey, Span
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale

_MINUTE_S = 60
_DAY_S = 86_400
_SHORT_PERIODS = (10, 20, 30)

FIELDS = (
    "AlarmName", "AlarmDescription", "ActionsEnabled", "OKActions", "AlarmActions",
    "InsufficientDataActions", "MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Dimensions",
    "Period", "Unit", "EvaluationPeriods", "DatapointsToAlarm", "Threshold", "ComparisonOperator",
    "TreatMissingData", "Metrics", "EvaluateLowSampleCountPercentile", "ThresholdMetricId",
    "EvaluationCriteria", "EvaluationInterval", "EvaluationWindow", "WarmUpConfiguration",
    "ActionConfiguration",
)  # fmt: skip
"""The parameters of PutMetricAlarm, without tags."""
NOT_SUPPORTED: Mapping[str, str] = {
    "EvaluateLowSampleCountPercentile": "percentiles of few values are evaluated",
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
class AlarmSpec:
    """The specification of an alarm."""

    condition: Condition
    period_s: int
    queries: Sequence[Query]
    watched: Query

    @property
    def metrics(self) -> Iterator[MetricKey]:
        """All metrics it uses."""
        return (query.metric for query in self.queries if query.metric is not None)

    def span(self, now: float, time_scale: TimeScale) -> Span:
        """Return the windows to evaluate: they end with the last full minute (short periods: ten seconds).

        As in CloudWatch, they move by one minute, and a value counts after its minute has passed.
        """
        step = time_scale.lasting(BUCKET_S if self.period_s < _MINUTE_S else _MINUTE_S)
        length, count = time_scale.lasting(self.period_s), self.condition.windows
        return Span(floor(now / step) * step - count * length, length, count)

    def observe(self, scope: Scope, span: Span) -> list[Window]:
        """Return the windows with their values."""
        values = compute(self.watched, self.queries, scope, span)
        return [Window(*window) for window in zip(span.starts, values, strict=True)]


def read_alarm(fields: Mapping[str, Any]) -> AlarmSpec:
    """Read a PutMetricAlarm request, or raise AlarmRejectedError."""
    for name, why in NOT_SUPPORTED.items():
        if fields.get(name):
            raise AlarmRejectedError(f"The local cloud does not support {name} in PutMetricAlarm: {why}.")
    condition = _condition(fields)
    metrics = fields.get("Metrics")
    if bool(metrics) == bool(fields.get("MetricName")):
        raise AlarmRejectedError("Exactly one of MetricName and Metrics must be specified")
    try:
        queries = (
            list(map(read_query, metrics)) if metrics else [metric_query("", fields, _statistic(fields))]
        )
        watched = queries[_watched_index(metrics)] if metrics else queries[0]
        check(watched, queries)
    except QueryError as error:
        raise AlarmRejectedError(str(error)) from error
    return AlarmSpec(condition, _period(queries, condition.periods), queries, watched)


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
    for name in ("EvaluationPeriods", "Threshold"):
        if fields.get(name) is None:
            raise AlarmRejectedError(f"The parameter {name} is required")
    periods, datapoints = int(fields["EvaluationPeriods"]), fields.get("DatapointsToAlarm")
    if datapoints is not None and not 1 <= int(datapoints) <= periods:
        raise AlarmRejectedError("DatapointsToAlarm must be between 1 and EvaluationPeriods")
    return Condition(comparison, float(fields["Threshold"]), periods, datapoints and int(datapoints), missing)


def _statistic(fields: Mapping[str, Any]) -> str:
    plain, extended = fields.get("Statistic"), fields.get("ExtendedStatistic")
    if bool(plain) == bool(extended):
        raise AlarmRejectedError("Exactly one of Statistic and ExtendedStatistic must be specified")
    if plain and plain not in PLAIN_STATISTICS:
        raise AlarmRejectedError(f"Statistic {plain!r} is none of {', '.join(PLAIN_STATISTICS)}")
    return str(plain or extended)


def _watched_index(metrics: Sequence[Mapping[str, Any]]) -> int:
    shown = [index for index, item in enumerate(metrics) if item.get("ReturnData", True)]
    if len(shown) != 1:
        raise AlarmRejectedError("Exactly one element of the metrics list should return data")
    if len({item["Id"] for item in metrics}) < len(metrics):
        raise AlarmRejectedError("Each element of the metrics list needs an Id of its own")
    return shown[0]


def _period(queries: Sequence[Query], count: int) -> int:
    periods = {query.period_s for query in queries if query.metric is not None}
    if len(periods) != 1:
        raise AlarmRejectedError("The local cloud requires metrics of the same Period for an alarm")
    (period_s,) = periods
    if period_s is None or (
        period_s not in _SHORT_PERIODS and (period_s < _MINUTE_S or period_s % _MINUTE_S)
    ):
        raise AlarmRejectedError("Period must be 10, 20, 30 or a multiple of 60")
    if period_s * count > _DAY_S:
        raise AlarmRejectedError(
            "Metrics cannot be checked across more than a day (EvaluationPeriods * Period)"
        )
    return period_s
