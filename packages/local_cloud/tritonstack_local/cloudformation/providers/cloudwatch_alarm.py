"""AWS::CloudWatch::Alarm."""

from __future__ import annotations

from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import Property, Provider, ResourceRequest, ignoring

_SETTINGS = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "ComparisonOperator",
    "DatapointsToAlarm",
    "Dimensions",
    "EvaluateLowSampleCountPercentile",
    "EvaluationPeriods",
    "ExtendedStatistic",
    "InsufficientDataActions",
    "MetricName",
    "Metrics",
    "Namespace",
    "OKActions",
    "Period",
    "Statistic",
    "Tags",
    "Threshold",
    "ThresholdMetricId",
    "TreatMissingData",
    "Unit",
)

ACTIONS = ("AlarmActions", "InsufficientDataActions", "OKActions")
SNS_ALONE = "Topics of SNS are told; any other action is written into the alarm's history as failed."
_METRICS = {
    "AccountId": "Refused: alarms look at their own account.",
    "Expression": "Metric math is computed but for SEARCH, SORT, times, bands and quotas, which are refused.",
    "Period": "An expression has the period of its metrics, which must all have the same.",
}


class Alarm(Provider):
    """Identifier: the alarm's name."""

    type_name = "AWS::CloudWatch::Alarm"
    name_property = "AlarmName"
    properties: ClassVar = {
        "AlarmName": Property(create_only=True),
        **{
            name: Property(
                shape=f"cloudwatch:PutMetricAlarm.{name}",
                why=SNS_ALONE if name in ACTIONS else "",
                inner=_METRICS if name == "Metrics" else {},
            )
            for name in _SETTINGS
        },
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the alarm, whole, each time."""
        return request.name("AlarmName", max_length=255)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the alarm."""
        request.client("cloudwatch").put_metric_alarm(AlarmName=physical_id, **request.api(*_SETTINGS))

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the alarm."""
        with ignoring("ResourceNotFound"):
            request.client("cloudwatch").delete_alarms(AlarmNames=[physical_id])

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN."""
        stack = request.stack
        return {"Arn": f"arn:aws:cloudwatch:{stack.region}:{stack.account}:alarm:{physical_id}"}
