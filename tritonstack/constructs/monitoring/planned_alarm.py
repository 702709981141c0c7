"""Create a CloudWatch alarm from its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tritonstack.constructs.monitoring.alarm_plan import AlarmPlan
from tritonstack.constructs.monitoring.metrics import Metric

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
