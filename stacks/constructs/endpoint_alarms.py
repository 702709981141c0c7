"""What wakes somebody up: slow answers, failing answers, refused requests.

The alarms bear names of their own choosing, so that the endpoint can name them for its rollbacks while
they name the endpoint they watch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from catalog import naming
from catalog.endpoints import Alarms
from catalog.rollouts import AlarmId
from stacks.watched import Watched

_MICROSECONDS_PER_MS = 1000


@dataclass(frozen=True)
class _Watch:
    """One metric and the value that it must not reach."""

    id: AlarmId
    metric: str
    statistic: str
    threshold: float
    description: str


def _watches(thresholds: Alarms) -> tuple[_Watch, ...]:
    return (
        _Watch(
            id="latency-p99",
            metric="ModelLatency",
            statistic="p99",
            # SageMaker measures ModelLatency in microseconds.
            threshold=(thresholds.latency_p99_ms or 0) * _MICROSECONDS_PER_MS,
            description=f"one request in a hundred takes {(thresholds.latency_p99_ms or 0):g} ms or more",
        ),
        _Watch(
            id="server-errors",
            metric="Invocation5XXErrors",
            statistic="Sum",
            threshold=(thresholds.server_errors or 0),
            description=f"{thresholds.server_errors} or more invocations failed in five minutes",
        ),
        _Watch(
            id="client-errors",
            metric="Invocation4XXErrors",
            statistic="Sum",
            threshold=(thresholds.client_errors or 0),
            description=f"{thresholds.client_errors} or more invocations were refused in five minutes",
        ),
    )


class EndpointAlarms(Construct):
    """The alarms of one endpoint; each tells the environment's topic when it rings and when it is over."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        watched: Watched,
        alarms: Alarms,
        topic_arn: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names: dict[AlarmId, list[str]] = {}
        for watch in _watches(alarms):
            name = naming.alarm_name(watched.endpoint_name, watched.variants[0].name, watch.id)
            alarm = self._alarm(watch, name, watched)
            self._names.setdefault(watch.id, []).append(name)
            if topic_arn is not None:
                action = actions.SnsAction(sns.Topic.from_topic_arn(self, f"{watch.id}-topic", topic_arn))
                alarm.add_alarm_action(action)
                alarm.add_ok_action(action)

    def names(self, ids: Iterable[AlarmId]) -> list[str]:
        """The names of the alarms of these kinds, one a production variant; those left out have none."""
        return [name for alarm_id in ids for name in self._names.get(alarm_id, [])]

    def _alarm(self, watch: _Watch, name: str, watched: Watched) -> cloudwatch.Alarm:
        metric = cloudwatch.Metric(
            namespace="AWS/SageMaker",
            metric_name=watch.metric,
            dimensions_map={"EndpointName": watched.endpoint_name, "VariantName": watched.variants[0].name},
            statistic=watch.statistic,
            period=cdk.Duration.minutes(5),
        )
        return cloudwatch.Alarm(
            self,
            watch.id,
            alarm_name=name,
            alarm_description=f"{watched.endpoint_name}: {watch.description}",
            metric=metric,
            threshold=watch.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=1,
            # No requests, no metric: an endpoint that nobody calls is well.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
