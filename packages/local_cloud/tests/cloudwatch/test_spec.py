"""The metrics of an alarm, and alarms rejected because they would differ from AWS."""

import pytest

from tritonstack_local.cloudwatch.alarm_rules import AlarmRejectedError, read_alarm
from tritonstack_local.settings import TimeScale

PLAIN = {
    "AlarmName": "a",
    "Namespace": "Shop",
    "MetricName": "Errors",
    "Statistic": "Sum",
    "Period": 300,
    "EvaluationPeriods": 1,
    "Threshold": 3,
    "ComparisonOperator": "GreaterThanThreshold",
}


def with_math(expression, *, period=60, **more):
    stat = {"Metric": {"Namespace": "Shop", "MetricName": "Calls"}, "Period": period, "Stat": "Sum"}
    given = {
        name: PLAIN[name] for name in ("AlarmName", "EvaluationPeriods", "Threshold", "ComparisonOperator")
    }
    queries = [
        {"Id": "value", "Expression": expression, "ReturnData": True},
        {"Id": "m", "MetricStat": stat, "ReturnData": False, **more},
    ]
    return {**given, "Metrics": queries}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (PLAIN | {"ComparisonOperator": "LessThanLowerThreshold"}, "there is no anomaly detection"),
        (PLAIN | {"EvaluationWindow": {"SlidingWindow": {}}}, "windows move by one minute"),
        (PLAIN | {"ThresholdMetricId": "m"}, "there is no anomaly detection"),
        (PLAIN | {"Statistic": None, "ExtendedStatistic": "median"}, "ExtendedStatistic is not supported"),
        (PLAIN | {"Statistic": "Median"}, "Statistic 'Median' is none of"),
        (PLAIN | {"ExtendedStatistic": "p99"}, "Exactly one of Statistic and ExtendedStatistic"),
        (PLAIN | {"TreatMissingData": "whatever"}, "TreatMissingData 'whatever' is none of"),
        (PLAIN | {"Period": 45}, "Period must be 10, 20, 30 or a multiple of 60"),
        (PLAIN | {"Period": 3600, "EvaluationPeriods": 25}, "more than a day"),
        (PLAIN | {"DatapointsToAlarm": 2}, "DatapointsToAlarm must be between 1 and EvaluationPeriods"),
        (PLAIN | {"Threshold": None}, "The parameter Threshold is required"),
        (PLAIN | {"MetricName": None}, "Exactly one of MetricName and Metrics"),
        (PLAIN | {"EvaluateLowSampleCountPercentile": "ignore"}, "EvaluateLowSampleCountPercentile"),
        (with_math("SEARCH(m)"), "SEARCH"),
        (with_math("m + n"), "no query has the id 'n'"),
        (with_math("1 + 1"), "expected a time series"),
        (with_math("SELECT AVG(m) FROM x"), "Metrics Insights"),
        (with_math("m", ReturnData=True), "Exactly one element of the metrics list should return data"),
        (with_math("m", AccountId="111122223333"), "AccountId"),
    ],
)
def test_unsupported_alarms(given, message):
    with pytest.raises(AlarmRejectedError, match=message):
        read_alarm(given)


@pytest.mark.parametrize(
    ("period", "minute_s", "now", "start", "length"),
    [
        # 300 s are 5 s here; three of them, which end with the last full minute: a second.
        (300, 1.0, 1000.7, 985.0, 5.0),
        (300, 60.0, 100_030.0, 100_020.0 - 900, 300.0),
        (10, 60.0, 100_037.0, 100_000.0, 10.0),
        (60, 0.5, 1000.7, 999.0, 0.5),
    ],
)
def test_windows_end_with_the_last_complete_minute(period, minute_s, now, start, length):
    span = read_alarm(PLAIN | {"Period": period}).span(now, TimeScale(minute_s))
    assert (span.start, span.length_s, span.count) == pytest.approx((start, length, 3))
