"""What wakes somebody up: slow answers, failing answers, refused requests.

The alarms bear names of their own choosing, so that the endpoint can name them for its rollbacks while
they name the endpoint they watch.
"""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from catalog import naming
from catalog.endpoints import AlarmThresholds
from stacks.deployment import VARIANT, EndpointDeployment

_MICROSECONDS_PER_MS = 1000


@dataclass(frozen=True)
class _Watch:
    """One metric and the value that it must not reach."""

    id: str
    metric: str
    statistic: str
    threshold: float
    description: str
    rolls_back: bool

    def alarm_name(self, endpoint: str) -> str:
        return f"{endpoint}-{self.id}"


def _watches(thresholds: AlarmThresholds) -> tuple[_Watch, ...]:
    return (
        _Watch(
            id="latency-p99",
            metric="ModelLatency",
            statistic="p99",
            # SageMaker measures ModelLatency in microseconds.
            threshold=thresholds.latency_p99_ms * _MICROSECONDS_PER_MS,
            description=f"one request in a hundred takes {thresholds.latency_p99_ms:g} ms or more",
            rolls_back=True,
        ),
        _Watch(
            id="server-errors",
            metric="Invocation5XXErrors",
            statistic="Sum",
            threshold=thresholds.server_errors,
            description=f"{thresholds.server_errors} or more invocations failed in five minutes",
            rolls_back=True,
        ),
        _Watch(
            id="client-errors",
            metric="Invocation4XXErrors",
            statistic="Sum",
            threshold=thresholds.client_errors,
            description=f"{thresholds.client_errors} or more invocations were refused in five minutes",
            # Any caller can send bad requests; that must not undo a deploy.
            rolls_back=False,
        ),
    )


class EndpointAlarms(Construct):
    """The alarms of one endpoint; each tells the environment's topic when it rings and when it is over."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: EndpointDeployment) -> None:
        super().__init__(scope, construct_id)
        environment = deployment.environment
        topic = sns.Topic.from_topic_arn(
            self,
            "Topic",
            f"arn:aws:sns:{environment.region}:{environment.account}:"
            f"{naming.alarm_topic_name(environment.base)}",
        )
        action = actions.SnsAction(topic)
        watches = _watches(deployment.endpoint.alarms)
        for watch in watches:
            alarm = self._alarm(watch, deployment.endpoint_name)
            alarm.add_alarm_action(action)
            alarm.add_ok_action(action)
        self.rollback_alarm_names = tuple(
            watch.alarm_name(deployment.endpoint_name) for watch in watches if watch.rolls_back
        )

    def _alarm(self, watch: _Watch, endpoint_name: str) -> cloudwatch.Alarm:
        metric = cloudwatch.Metric(
            namespace="AWS/SageMaker",
            metric_name=watch.metric,
            dimensions_map={"EndpointName": endpoint_name, "VariantName": VARIANT},
            statistic=watch.statistic,
            period=cdk.Duration.minutes(5),
        )
        return cloudwatch.Alarm(
            self,
            watch.id,
            alarm_name=watch.alarm_name(endpoint_name),
            alarm_description=f"{endpoint_name}: {watch.description}",
            metric=metric,
            threshold=watch.threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=1,
            # No requests, no metric: an endpoint that nobody calls is well.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
