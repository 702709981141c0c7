"""CloudWatch and CloudWatch Logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from tritonstack_local.cloudformation.providers.base import (
    Property,
    Provider,
    ResourceRequest,
    ignoring,
    reject_change,
    removed,
)

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
SNS_ALONE = (
    "SNS topics are notified and scaling policies triggered; other actions are recorded as failed in the "
    "alarm's history."
)
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
                reason=SNS_ALONE if name in ACTIONS else "",
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
        "ActionsSuppressor": Property(effect=False, reason=_NO_SUPPRESSION),
        "ActionsSuppressorExtensionPeriod": Property(effect=False, reason=_NO_SUPPRESSION),
        "ActionsSuppressorWaitPeriod": Property(effect=False, reason=_NO_SUPPRESSION),
        "AlarmName": Property(create_only=True),
        **{
            name: Property(
                shape=f"cloudwatch:PutCompositeAlarm.{name}",
                required=name == "AlarmRule",
                reason=SNS_ALONE if name in ACTIONS else "",
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
            required=True, reason="It is stored and returned; there is no console to show it."
        ),
        "DashboardName": Property(create_only=True),
        "Tags": Property(effect=False, reason="They are not stored."),
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


class LogGroupProvider(Provider):
    """Identifier: the log group's name."""

    type_name = "AWS::Logs::LogGroup"
    name_property = "LogGroupName"
    properties: ClassVar = {
        "KmsKeyId": Property(effect=False, reason="It is stored and returned; nothing is encrypted."),
        "LogGroupClass": Property(effect=False, reason="Not stored: every group has the STANDARD class."),
        "LogGroupName": Property(create_only=True),
        "RetentionInDays": Property(shape="logs:PutRetentionPolicy.retentionInDays"),
        "Tags": Property(members={"Key": None, "Value": None}),
    }
    attribute_names = frozenset({"Arn"})

    def create(self, request: ResourceRequest) -> str:
        """Create the log group."""
        name = request.name("LogGroupName", max_length=512)
        given = {"kmsKeyId": "KmsKeyId", "logGroupClass": "LogGroupClass"}
        extra = {api: request.properties[prop] for api, prop in given.items() if prop in request.properties}
        request.client("logs").create_log_group(logGroupName=name, **extra)
        return name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Set retention and tags."""
        logs = request.client("logs")
        if "RetentionInDays" in request.properties:
            logs.put_retention_policy(
                logGroupName=physical_id, retentionInDays=request.value("RetentionInDays")
            )
        tags = {tag["Key"]: str(tag["Value"]) for tag in request.properties.get("Tags", [])}
        if tags:
            logs.tag_resource(resourceArn=_arn(request, physical_id), tags=tags)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Change the key; remove retention and tags."""
        reject_change(request, previous, "LogGroupClass")
        logs = request.client("logs")
        if removed(request, previous, "RetentionInDays"):
            logs.delete_retention_policy(logGroupName=physical_id)
        if removed(request, previous, "KmsKeyId"):
            logs.disassociate_kms_key(logGroupName=physical_id)
        elif request.properties.get("KmsKeyId") != previous.properties.get("KmsKeyId"):
            logs.associate_kms_key(logGroupName=physical_id, kmsKeyId=request.properties["KmsKeyId"])
        kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
        gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
        if gone:
            logs.untag_resource(resourceArn=_arn(request, physical_id), tagKeys=gone)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the log group with everything in it."""
        with ignoring("ResourceNotFoundException"):
            request.client("logs").delete_log_group(logGroupName=physical_id)

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the ARN, which ends with `:*` as on AWS."""
        return {"Arn": f"{_arn(request, physical_id)}:*"}


def _arn(request: ResourceRequest, name: str) -> str:
    return f"arn:aws:logs:{request.stack.region}:{request.stack.account}:log-group:{name}"


_TRANSFORMATION = {
    "DefaultValue": None,
    "Dimensions": {"Key": None, "Value": None},
    "MetricName": None,
    "MetricNamespace": None,
    "MetricValue": None,
    "Unit": None,
}


class MetricFilterProvider(Provider):
    """Identifier: the filter's name; it belongs to one log group."""

    type_name = "AWS::Logs::MetricFilter"
    name_property = "FilterName"
    properties: ClassVar = {
        "FilterName": Property(create_only=True),
        "FilterPattern": Property(
            required=True, reason="Patterns for plain text only; patterns for JSON and columns are rejected."
        ),
        "LogGroupName": Property(create_only=True, required=True),
        "MetricTransformations": Property(
            members=_TRANSFORMATION,
            required=True,
            inner={
                "Dimensions": "Rejected: they refer to JSON fields or columns.",
                "MetricValue": "A number; references to values in the lines are rejected.",
            },
        ),
    }

    def create(self, request: ResourceRequest) -> str:
        """Return the name; `settle` puts the filter."""
        return request.name("FilterName", max_length=512)

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Put the filter."""
        transformations = [_transformation(item) for item in request.properties["MetricTransformations"]]
        request.client("logs").put_metric_filter(
            logGroupName=request.properties["LogGroupName"],
            filterName=physical_id,
            filterPattern=request.properties["FilterPattern"],
            metricTransformations=transformations,
        )

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Delete the filter."""
        with ignoring("ResourceNotFoundException"):
            request.client("logs").delete_metric_filter(
                logGroupName=request.properties["LogGroupName"], filterName=physical_id
            )


def _transformation(item: Mapping[str, Any]) -> dict[str, Any]:
    converted = {f"{key[0].lower()}{key[1:]}": value for key, value in item.items()}
    if "defaultValue" in converted:
        converted["defaultValue"] = float(converted["defaultValue"])
    if "dimensions" in converted:
        converted["dimensions"] = {entry["Key"]: entry["Value"] for entry in converted["dimensions"]}
    return converted
