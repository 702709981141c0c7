"""Read PutMetricAlarm requests; reject alarms that would behave differently than on AWS."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor
from typing import Any, Literal

from tritonstack_local.cloudwatch.queries import (
    Query,
    QueryError,
    check,
    compute,
    metric_query,
    read_query,
)
from tritonstack_local.cloudwatch.store import BUCKET_S, PLAIN_STATISTICS, MetricKey, Span
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale

# Rules and reason texts follow CloudWatch's user guide and responses:
#
# * An alarm of N evaluation periods looks at N + 2 windows, the evaluation range: the guide's example is 5
#   for 3, and AWS says of others only that there are more than N.
# * N real values anywhere in the range decide by themselves, the newest first; only what is missing of N is
#   filled in as TreatMissingData says.
# * With `missing` and `ignore`, breaching values that no other contradicts fire once the oldest of them is as
#   old as DatapointsToAlarm; younger ones do not: a metric that flows now and then would fire too early.


State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
STATES: tuple[State, ...] = ("OK", "ALARM", "INSUFFICIENT_DATA")
INITIAL_REASON = "Unchecked: Initial alarm creation"

EXTRA_WINDOWS = 2

_COMPARISONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "GreaterThanOrEqualToThreshold": (operator.ge, "greater than or equal to"),
    "GreaterThanThreshold": (operator.gt, "greater than"),
    "LessThanThreshold": (operator.lt, "less than"),
    "LessThanOrEqualToThreshold": (operator.le, "less than or equal to"),
}
COMPARISONS = tuple(_COMPARISONS)
TREATMENTS = ("breaching", "notBreaching", "ignore", "missing")


@dataclass(frozen=True)
class Condition:
    """The condition of an alarm."""

    comparison: str
    threshold: float
    periods: int
    datapoints: int | None = None
    """DatapointsToAlarm; None if not set."""
    missing: str = "missing"

    @property
    def needed(self) -> int:
        """Number of values that must breach."""
        return self.datapoints or self.periods

    @property
    def windows(self) -> int:
        """Number of evaluated windows."""
        return self.periods + EXTRA_WINDOWS

    def breached_by(self, value: float) -> bool:
        """Return whether a value breaches the threshold."""
        return _COMPARISONS[self.comparison][0](value, self.threshold)


@dataclass(frozen=True)
class Window:
    """One window: its start, and its value if any."""

    start: float
    value: float | None


@dataclass(frozen=True)
class AlarmDecision:
    """The resulting state and the values behind it."""

    state: State
    evaluated: tuple[Window, ...]
    """The existing values used, newest first."""
    filled: int = 0
    """Number of missing values filled in."""


def decide(windows: Sequence[Window], condition: Condition) -> AlarmDecision | None:
    """Return the new state; None to keep the current one. The newest window comes last."""
    newest_first = tuple(reversed(windows))
    real = tuple(window for window in newest_first if window.value is not None)
    filled = max(0, condition.periods - len(real))
    if not filled or condition.missing in {"breaching", "notBreaching"}:
        real = real[: condition.periods]
        breaching = _breaching(real, condition) + (filled if condition.missing == "breaching" else 0)
        return AlarmDecision(_counted(breaching, condition), real, filled)
    breaching = _breaching(real, condition)
    if real and (breaching >= condition.needed or breaching < len(real)):
        return AlarmDecision(_counted(breaching, condition), real)
    if condition.missing == "ignore":
        return None
    is_old = bool(real) and newest_first.index(real[-1]) + 1 >= condition.needed
    return AlarmDecision("ALARM" if is_old else "INSUFFICIENT_DATA", real)


def _breaching(windows: Sequence[Window], condition: Condition) -> int:
    return sum(window.value is not None and condition.breached_by(window.value) for window in windows)


def _counted(breaching: int, condition: Condition) -> State:
    return "ALARM" if breaching >= condition.needed else "OK"


def reason(decision: AlarmDecision, condition: Condition) -> str:
    """Return the reason in CloudWatch's wording."""
    if decision.state == "INSUFFICIENT_DATA":
        unknown = condition.windows - len(decision.evaluated)
        return f"Insufficient Data: {_datapoints(unknown)} {_was(unknown)} unknown."
    treated = "Breaching" if condition.missing == "breaching" else "NonBreaching"
    missing = (
        f"{decision.filled} missing {_datapoints(decision.filled).split()[1]} {_was(decision.filled)} "
        f"treated as [{treated}]"
    )
    if not decision.evaluated:
        return f"Threshold Crossed: no datapoints were received and {missing}."
    fires = decision.state == "ALARM"
    deciding = [
        window
        for window in decision.evaluated
        if window.value is not None and condition.breached_by(window.value) == fires
    ]
    shown = deciding or decision.evaluated
    values = ", ".join(f"{window.value} ({_short(window.start)})" for window in shown)
    than = f"{'' if fires else 'not '}{_COMPARISONS[condition.comparison][1]}"
    filled = f" and {missing}" if decision.filled else ""
    return (
        f"Threshold Crossed: {_datapoints(len(shown))} [{values}] {_was(len(shown))} {than} the threshold "
        f"({condition.threshold}){filled}."
    )


def _datapoints(count: int) -> str:
    return "1 datapoint" if count == 1 else f"{count} datapoints"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _short(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%d/%m/%y %H:%M:%S}"


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
