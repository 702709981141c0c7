"""The CloudWatch alarms of target tracking policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.facts.scaling_rules import (
    HIGH_ALARM,
    LOW_ALARM,
    PREDEFINED_METRICS,
    TREAT_MISSING_DATA,
    PredefinedMetric,
    ScalingAlarmRule,
)
from tritonstack_local.autoscaling.records import PolicyRecord
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError

DESCRIPTION = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy"
CREATED_BY = ":createdBy/"


def alarm_requests(policy: PolicyRecord) -> Iterator[dict[str, Any]]:
    """Yield the PutMetricAlarm requests of a target tracking policy."""
    metric = policy.configuration.get("PredefinedMetricSpecification")
    predefined = None if metric is None else PREDEFINED_METRICS[metric["PredefinedMetricType"]]
    rules = (
        (policy.high, HIGH_ALARM if predefined is None else predefined.high),
        (policy.low, LOW_ALARM if predefined is None else predefined.low),
    )
    for name, rule in rules:
        if name is not None:
            yield _request(policy, name, rule, predefined)


def _request(
    policy: PolicyRecord, name: str, rule: ScalingAlarmRule, predefined: PredefinedMetric | None
) -> dict[str, Any]:
    action = f"{policy.arn}{CREATED_BY}{name[-36:]}"
    metric = (
        _customized(policy.configuration["CustomizedMetricSpecification"], rule.period_s)
        if predefined is None
        else _of_variant(policy.resource, predefined, rule.period_s)
    )
    return {
        "AlarmName": name,
        "AlarmDescription": f"{DESCRIPTION} {action}.",
        "AlarmActions": [action],
        "ComparisonOperator": rule.comparison,
        "EvaluationPeriods": rule.datapoints,
        "Threshold": policy.configuration["TargetValue"] * rule.factor,
        "TreatMissingData": TREAT_MISSING_DATA,
        **metric,
    }


def _of_variant(resource: str, metric: PredefinedMetric, period_s: int) -> dict[str, Any]:
    _, endpoint, _, variant = resource.split("/")
    return {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Statistic": metric.statistic,
        "Dimensions": [
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": variant},
        ],
        "Period": period_s,
    }


def _customized(metric: Mapping[str, Any], period_s: int) -> dict[str, Any]:
    if metric.get("Metrics"):
        return {"Metrics": [_query(item, period_s) for item in metric["Metrics"]]}
    return {**metric, "Period": period_s}


def _query(item: Mapping[str, Any], period_s: int) -> dict[str, Any]:
    if "MetricStat" not in item:
        return dict(item)
    return {**item, "MetricStat": {**item["MetricStat"], "Period": period_s}}


class TrackingAlarms:
    """Creates and deletes the alarms of policies."""

    def __init__(self, *, clients: Clients) -> None:
        self._clients = clients

    def put(self, scope: Scope, policy: PolicyRecord) -> None:
        """Create or update the alarms of a policy."""
        cloudwatch = self._clients.client("cloudwatch", scope)
        for request in alarm_requests(policy):
            try:
                cloudwatch.put_metric_alarm(**request)
            except (ClientError, BotoCoreError) as error:
                raise ServiceError(
                    "FailedResourceAccessException",
                    f"Unable to create alarms for scaling policy {policy.name}: {error}",
                ) from error

    def delete(self, scope: Scope, names: list[str]) -> None:
        """Delete alarms; missing ones are ignored."""
        cloudwatch = self._clients.client("cloudwatch", scope)
        if not names:
            return
        alarms = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
        if alarms:
            cloudwatch.delete_alarms(AlarmNames=[alarm["AlarmName"] for alarm in alarms])
