"""Create an endpoint's alarms: latency, errors, missing traffic, GPU memory, and errors in Triton's log.

The alarms have explicit names, so the endpoint can refer to them for rollbacks while they refer to the
endpoint.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.base import naming
from tritonstack.constructs.monitoring.alarm_plan import AlarmPlan, endpoint_alarms
from tritonstack.constructs.monitoring.monitored import (
    MICROSECONDS_PER_MS,
    Metric,
    Monitored,
    MonitoredVariant,
    Series,
    request_metric,
    traffic,
)
from tritonstack.files.endpoint.endpoint import Alarms
from tritonstack.files.endpoint.rollouts import AlarmId, AllAtOnce, Canary, Linear, Rolling

_STATISTICS = ("Average", "Maximum", "Minimum", "SampleCount", "Sum")


def add_alarm(
    scope: Construct,
    construct_id: str,
    *,
    plan: AlarmPlan,
    alarm_actions: Sequence[str] = (),
    ok_actions: Sequence[str] = (),
) -> cloudwatch.CfnAlarm:
    """Create the alarm; actions are ARNs."""
    alarm = cloudwatch.CfnAlarm(
        scope,
        construct_id,
        alarm_name=plan.name,
        alarm_description=plan.description,
        threshold=plan.threshold,
        comparison_operator=plan.comparison,
        evaluation_periods=plan.periods,
        datapoints_to_alarm=plan.bad_periods,
        # No requests, no metric: an endpoint without traffic is OK.
        treat_missing_data="notBreaching",
        alarm_actions=list(alarm_actions) or None,
        ok_actions=list(ok_actions) or None,
    )
    if plan.expression is None:
        _watch_one(alarm, plan)
    else:
        alarm.metrics = list(_queries(plan, plan.expression))
    return alarm


def _watch_one(alarm: cloudwatch.CfnAlarm, plan: AlarmPlan) -> None:
    (series,) = plan.series.values()
    alarm.namespace = series.metric.namespace
    alarm.metric_name = series.metric.name
    alarm.dimensions = [*_dimensions(series.metric)] or None
    alarm.period = plan.period_s
    if series.statistic in _STATISTICS:
        alarm.statistic = series.statistic
    else:
        alarm.extended_statistic = series.statistic


def _queries(plan: AlarmPlan, expression: str) -> Iterator[cloudwatch.CfnAlarm.MetricDataQueryProperty]:
    yield cloudwatch.CfnAlarm.MetricDataQueryProperty(id="value", expression=expression, return_data=True)
    for key, series in plan.series.items():
        metric = cloudwatch.CfnAlarm.MetricProperty(
            namespace=series.metric.namespace,
            metric_name=series.metric.name,
            dimensions=_dimensions(series.metric) or None,
        )
        yield cloudwatch.CfnAlarm.MetricDataQueryProperty(
            id=key,
            return_data=False,
            metric_stat=cloudwatch.CfnAlarm.MetricStatProperty(
                metric=metric, period=plan.period_s, stat=series.statistic
            ),
        )


def _dimensions(metric: Metric) -> list[cloudwatch.CfnAlarm.DimensionProperty]:
    return [
        cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value) for name, value in metric.dimensions
    ]


# Define the alarms that roll back an update in parts: canary, linear, or rolling.
#
# SageMaker's metrics do not separate the old instances from the new ones, but their distributions do. A bad
# release fails or slows its own share of the requests, and the old instances answer the others in time. An
# overload affects all instances: requests wait, and those that exceed a queue limit are rejected. The alarms
# ignore such minutes. They evaluate minutes, so that the two minutes in which an overload begins and
# ends, with good answers beside bad ones, roll back nothing.


LEAST_ANSWERED = 0.05
"""Share of requests that are answered in time if the old instances work; in an overload, none are."""
MOST_FAST_PERCENT = 99
"""In an overload, more requests than the rest wait in a queue. If fewer do, errors are not rejections."""
BROKEN_MS = 45_000
"""Instances with a response time like this are broken if others answer in time; without queue limits, all
requests of an overload wait as long."""
LEAST_FAST_PERCENT = 5
_MINUTES, _BAD_MINUTES = 5, 3
_COMPARED: Mapping[AlarmId, str] = MappingProxyType(
    {"latency-p99": "slowest", "server-errors": "failed", "client-errors": "rejected"}
)
"""Alarms that an overload triggers, each with the key of its value."""


def compares_instances(rollout: AllAtOnce | Canary | Linear | Rolling, *, asynchronous: bool) -> bool:
    """Return whether old instances answer during an update; an asynchronous endpoint has its own queue."""
    return not isinstance(rollout, AllAtOnce) and not asynchronous


def release_alarms(monitored: Monitored, alarms: Alarms, ids: Collection[AlarmId]) -> Iterator[AlarmPlan]:
    """Yield the alarms of an update in parts that replace the endpoint's own alarms of these kinds."""
    compared = {
        naming.alarm_name(monitored.endpoint_name, variant.name, alarm_id): (variant, alarm_id)
        for variant in monitored.production
        for alarm_id in _COMPARED
        if alarm_id in ids
    }
    for alarm in endpoint_alarms(monitored, alarms):
        if alarm.name in compared:
            variant, alarm_id = compared[alarm.name]
            is_count = alarm_id != "latency-p99"
            yield replace(
                alarm,
                name=f"{alarm.name}-rollout",
                description=f"{alarm.description}; for updates: ignores minutes of overload",
                # Together, the bad minutes have at least as many errors as the endpoint's own alarm allows.
                threshold=math.ceil(alarm.threshold / _BAD_MINUTES) if is_count else alarm.threshold,
                series=_series(monitored, variant, alarms),
                expression=_expression(_COMPARED[alarm_id], multi_model=monitored.multi_model),
                period_s=60,
                periods=_MINUTES,
                bad_periods=_BAD_MINUTES,
            )


def _series(monitored: Monitored, variant: MonitoredVariant, alarms: Alarms) -> dict[str, Series]:
    latency = request_metric(monitored, variant, "ModelLatency")
    in_time_us = round((alarms.latency_p99_ms or BROKEN_MS) * MICROSECONDS_PER_MS)
    return {
        "calls": traffic(monitored, variant),
        "replies": Series(latency, "SampleCount"),
        "fast": Series(latency, f"PR(:{in_time_us})"),
        "slowest": Series(latency, "p99"),
        "failed": Series(request_metric(monitored, variant, "Invocation5XXErrors"), "Sum"),
        "rejected": Series(request_metric(monitored, variant, "Invocation4XXErrors"), "Sum"),
    }


def _expression(value: str, *, multi_model: bool) -> str:
    """Return the value in minutes without an overload, else 0.

    In multi-model mode, Triton answers its own errors, rejections included, with 400.
    """
    errors = "FILL(failed, 0)" + (" - FILL(rejected, 0)" if multi_model else "")
    answered = f"FILL(fast, 100) * FILL(replies, 0) / 100 - {errors}"
    result = f"FILL({value}, 0)"
    broken_us = BROKEN_MS * MICROSECONDS_PER_MS
    return (
        f"IF({answered} > {LEAST_ANSWERED} * FILL(calls, 0), {result}, "
        f"IF(FILL(fast, 100) > {MOST_FAST_PERCENT}, {result}, "
        f"IF(FILL(slowest, 0) > {broken_us}, IF(FILL(fast, 0) > {LEAST_FAST_PERCENT}, {result}, 0), 0)))"
    )


class EndpointAlarms(Construct):
    """Create the alarms of one endpoint; each notifies a topic when it triggers and when it recovers."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        monitored: Monitored,
        alarms: Alarms,
        topic_arn: str | None = None,
        compared: Collection[AlarmId] = (),
    ) -> None:
        """`compared`: kinds whose rollback alarm compares the new instances with the old ones."""
        super().__init__(scope, construct_id)
        self._alarms = endpoint_alarms(monitored, alarms)
        self._release_alarms = tuple(release_alarms(monitored, alarms, compared))
        topic = [topic_arn] if topic_arn else []
        for alarm in (*self._alarms, *self._release_alarms):
            local_name = alarm.name.removeprefix(f"{monitored.endpoint_name}-")
            # People get one message: an alarm for rollbacks only tells SageMaker.
            actions = topic if alarm in self._alarms else []
            add_alarm(self, local_name, plan=alarm, alarm_actions=actions, ok_actions=actions)

    @property
    def all_names(self) -> list[str]:
        """Return the names of all alarms that notify people."""
        return [alarm.name for alarm in self._alarms]

    @property
    def ids(self) -> set[str]:
        """Return the kinds of alarms that exist."""
        return {alarm.id for alarm in self._alarms}

    def rollback_names(self, ids: Iterable[AlarmId]) -> list[str]:
        """Return the rollback alarms of these kinds, one per production variant, without missing kinds."""
        compared = {alarm.id for alarm in self._release_alarms}
        return [
            alarm.name
            for alarm_id in ids
            for alarm in (self._release_alarms if alarm_id in compared else self._alarms)
            if alarm.id == alarm_id
        ]
