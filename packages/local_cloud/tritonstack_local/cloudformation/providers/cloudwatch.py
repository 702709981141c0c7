"""AWS::CloudWatch resources."""

from __future__ import annotations

import json
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
SNS_ALONE = "SNS topics are notified; other actions are recorded as failed in the alarm's history."
_METRICS = {
    "AccountId": "Rejected: alarms use metrics of their own account only.",
    "Expression": "Only operators, FILL, and IF are supported.",
    "Period": "An expression uses the period of its metrics, which must all be equal.",
}


class AlarmProvider(Provider):
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
        """Return the name; `settle` puts the whole alarm each time."""
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


_COMPOSITE_SETTINGS = (
    "ActionsEnabled",
    "AlarmActions",
    "AlarmDescription",
    "AlarmRule",
    "InsufficientDataActions",
    "OKActions",
    "Tags",
)

_NO_SUPPRESSION = "Not stored: alarms do not suppress each other; topics receive more than on AWS."


class CompositeAlarmProvider(AlarmProvider):
    """Composite alarms. Like AlarmProvider, with other properties."""

    type_name = "AWS::CloudWatch::CompositeAlarm"
    properties: ClassVar = {
        "ActionsSuppressor": Property(effect=False, why=_NO_SUPPRESSION),
        "ActionsSuppressorExtensionPeriod": Property(effect=False, why=_NO_SUPPRESSION),
        "ActionsSuppressorWaitPeriod": Property(effect=False, why=_NO_SUPPRESSION),
        "AlarmName": Property(create_only=True),
        **{
            name: Property(
                shape=f"cloudwatch:PutCompositeAlarm.{name}",
                required=name == "AlarmRule",
                why=SNS_ALONE if name in ACTIONS else "",
            )
            for name in _COMPOSITE_SETTINGS
        },
    }

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the alarm."""
        request.client("cloudwatch").put_composite_alarm(
            AlarmName=physical_id, **request.api(*_COMPOSITE_SETTINGS)
        )


class DashboardProvider(Provider):
    """Identifier: the dashboard's name."""

    type_name = "AWS::CloudWatch::Dashboard"
    name_property = "DashboardName"
    properties: ClassVar = {
        "DashboardBody": Property(
            required=True, why="It is stored and returned; there is no console to show it."
        ),
        "DashboardName": Property(create_only=True),
        "Tags": Property(effect=False, why="They are not stored."),
    }

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the dashboard."""
        return request.name("DashboardName", max_length=255)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the dashboard."""
        body = request.properties["DashboardBody"]
        request.client("cloudwatch").put_dashboard(
            DashboardName=physical_id, DashboardBody=body if isinstance(body, str) else json.dumps(body)
        )

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the dashboard."""
        with ignoring("DashboardNotFoundError", "ResourceNotFound"):
            request.client("cloudwatch").delete_dashboards(DashboardNames=[physical_id])
