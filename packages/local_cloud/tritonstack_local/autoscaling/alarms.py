"""The CloudWatch alarms of target tracking policies."""

from __future__ import annotations

import uuid
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
from tritonstack_local.autoscaling.records import PolicyRecord, TargetId
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError

PREFIX = "TargetTracking-"
DESCRIPTION = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy"
_CREATED_BY = ":createdBy/"


def policy_arn_in(action: str) -> str:
    """Return the policy that an alarm's action names."""
    return action.partition(_CREATED_BY)[0]


def new_alarm_names(target: TargetId, configuration: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the names of a policy's high and low alarm; without scale-in, there is no low alarm."""
    high, low = (f"{PREFIX}{target.resource}-{kind}-{uuid.uuid4()}" for kind in ("AlarmHigh", "AlarmLow"))
    return high, None if configuration.get("DisableScaleIn") else low


def alarm_requests(policy: PolicyRecord) -> Iterator[dict[str, Any]]:
    """Yield the PutMetricAlarm requests of a target tracking policy."""
    predefined = predefined_metric(policy.configuration)
    rules = (
        (policy.high, HIGH_ALARM if predefined is None else predefined.high),
        (policy.low, LOW_ALARM if predefined is None else predefined.low),
    )
    for name, rule in rules:
        if name is not None:
            yield _request(policy, name, rule, predefined)


def predefined_metric(configuration: Mapping[str, Any]) -> PredefinedMetric | None:
    """Return a policy's predefined metric, if it has one."""
    metric = configuration.get("PredefinedMetricSpecification")
    return None if metric is None else PREDEFINED_METRICS.get(metric["PredefinedMetricType"])


def _request(
    policy: PolicyRecord, name: str, rule: ScalingAlarmRule, predefined: PredefinedMetric | None
) -> dict[str, Any]:
    action = f"{policy.arn}{_CREATED_BY}{name[-36:]}"
    metric = (
        _customized(policy.configuration["CustomizedMetricSpecification"], rule.period_s)
        if predefined is None
        else _of_variant(policy.target, predefined, rule.period_s)
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


def _of_variant(target: TargetId, metric: PredefinedMetric, period_s: int) -> dict[str, Any]:
    endpoint, variant = target.variant
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
                    f"Unable to create alarms for scaling policy {policy.policy}: {error}",
                ) from error

    def delete(self, scope: Scope, names: list[str]) -> None:
        """Delete alarms; missing ones are ignored."""
        cloudwatch = self._clients.client("cloudwatch", scope)
        if not names:
            return
        alarms = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
        if alarms:
            cloudwatch.delete_alarms(AlarmNames=[alarm["AlarmName"] for alarm in alarms])
