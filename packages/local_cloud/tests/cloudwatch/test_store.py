"""Aggregation of old values in the metric store."""

import time

from tritonstack_local.cloudwatch.store import MetricKey, MetricStore, Span, Summary, timestamp
from tritonstack_local.scope import Scope
from tritonstack_local.settings import TimeScale

HERE = Scope("123456789012", "eu-west-1")
KEY = MetricKey("n", "m")
HOUR_S, MINUTE_S = 3600, 60


def measured(store, at):
    one = Summary()
    one.add(1.0)
    store.put(HERE, KEY, "None", one, at=at)


def counts(store, span):
    return [found.count if found else 0 for found in store.windows(HERE, KEY, span, unit=None)]


def test_old_values_are_aggregated_per_minute_without_loss():
    store = MetricStore(time_scale=TimeScale(minute_s=1.0))
    start = time.time() // MINUTE_S * MINUTE_S - 2 * HOUR_S
    for second in range(2 * HOUR_S):
        measured(store, start + second + 0.5)
    hours, minutes = Span(start, HOUR_S, 2), Span(start, MINUTE_S, 120)
    before = counts(store, hours), counts(store, minutes)
    store.forget_old()
    assert (counts(store, hours), counts(store, minutes)) == before == ([3600, 3600], [60] * 120)
    (series,) = store._series.values()
    assert len(series.order) == len(series.buckets) < 1800  # a scaled day (24 minutes) keeps its resolution


def test_values_within_alarm_windows_keep_their_resolution():
    store = MetricStore(time_scale=TimeScale(minute_s=1.0))
    start = time.time() // MINUTE_S * MINUTE_S - 600
    for second in range(600):
        measured(store, start + second + 0.5)
    store.forget_old()
    assert counts(store, Span(start, 1.0, 600)) == [1] * 600


def test_times_in_json_have_milliseconds_and_a_zone():
    assert timestamp(1_700_000_000.1239) == "2023-11-14T22:13:20.123+0000"
