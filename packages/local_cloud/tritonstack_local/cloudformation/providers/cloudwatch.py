"""CloudWatch and CloudWatch Logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack_local.cloudformation.providers.base import (
    KEYS_AND_VALUES,
    Creation,
    Deletion,
    Name,
    Property,
    PropertySetting,
    Provider,
    ResourceRequest,
    Tagging,
    alike,
    kept,
    small,
)

_METRIC_ALARM = "cloudwatch:PutMetricAlarm"
_ACTIONS = "AlarmActions InsufficientDataActions OKActions"
_SNS_ALONE = (
    "SNS topics are notified and scaling policies triggered; other actions are recorded as failed in the "
    "alarm's history."
)

_ALARM = Provider(
    type_name="AWS::CloudWatch::Alarm",
    identifier="AlarmName",
    name=Name("AlarmName", 255),
    properties={
        **alike("AlarmName", create_only=True),
        **alike(_ACTIONS, operation=_METRIC_ALARM, reason=_SNS_ALONE),
        "Metrics": Property(
            shape=f"{_METRIC_ALARM}.Metrics",
            inner={
                "AccountId": "Rejected: alarms use metrics of their own account only.",
                "Expression": "Only operators, FILL, and IF are supported.",
                "Period": "An expression uses the period of its metrics, which must all be equal.",
            },
        ),
        **alike(
            "ActionsEnabled AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
            "EvaluationPeriods ExtendedStatistic MetricName Namespace "
            "Period Statistic Tags Threshold ThresholdMetricId TreatMissingData Unit",
            operation=_METRIC_ALARM,
        ),
    },
    put_operation="put_metric_alarm",
    deletion=Deletion("delete_alarms", "ResourceNotFound", takes_list=True),
    attributes={"Arn": "arn:aws:cloudwatch:{region}:{account}:alarm:{id}"},
)

_DASHBOARD = Provider(
    type_name="AWS::CloudWatch::Dashboard",
    identifier="DashboardName",
    name=Name("DashboardName", 255),
    properties={
        "DashboardBody": Property(
            required=True, as_text=True, reason="It is stored and returned; there is no console to show it."
        ),
        "DashboardName": Property(create_only=True),
        "Tags": Property(effect=False, reason="They are not stored."),
    },
    unsent=("Tags",),
    settings={"DashboardBody": PropertySetting("put_dashboard", "DashboardBody")},
    deletion=Deletion("delete_dashboards", "DashboardNotFoundError ResourceNotFound", takes_list=True),
)

_LOG_GROUP_ARN = "arn:aws:logs:{region}:{account}:log-group:{id}"

_LOG_GROUP = Provider(
    type_name="AWS::Logs::LogGroup",
    identifier="logGroupName",
    name=Name("LogGroupName", 512),
    properties={
        "KmsKeyId": kept("nothing is encrypted."),
        "LogGroupName": Property(create_only=True),
        "RetentionInDays": Property(shape="logs:PutRetentionPolicy.retentionInDays"),
        "Tags": Property(members=KEYS_AND_VALUES),
    },
    creation=Creation("create_log_group"),
    camel_case=True,
    unchangeable=("KmsKeyId",),  # moto has no AssociateKmsKey
    settings={
        "RetentionInDays": PropertySetting(
            "put_retention_policy", "retentionInDays", "delete_retention_policy"
        ),
    },
    tagging=Tagging(
        "tag_resource",
        "untag_resource",
        {"resourceArn": _LOG_GROUP_ARN},
        tags="tags",
        keys="tagKeys",
        write=dict,
    ),
    deletion=Deletion("delete_log_group", "ResourceNotFoundException"),
    attributes={"Arn": f"{_LOG_GROUP_ARN}:*"},
)


def _transformation(item: Mapping[str, Any]) -> dict[str, Any]:
    converted = {small(key): value for key, value in item.items()}
    if "defaultValue" in converted:
        converted["defaultValue"] = float(converted["defaultValue"])
    if "dimensions" in converted:
        converted["dimensions"] = {entry["Key"]: entry["Value"] for entry in converted["dimensions"]}
    return converted


class MetricFilterProvider(Provider):
    """Identifier: the filter's name; it belongs to one log group."""

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, str]:
        """Return the names of the filter and its group."""
        return {"logGroupName": request.properties["LogGroupName"], "filterName": physical_id}

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the pattern and its metrics."""
        return {
            "filterPattern": request.properties["FilterPattern"],
            "metricTransformations": [
                _transformation(item) for item in request.properties["MetricTransformations"]
            ],
        }


_METRIC_FILTER = MetricFilterProvider(
    type_name="AWS::Logs::MetricFilter",
    name=Name("FilterName", 512),
    properties={
        "FilterName": Property(create_only=True),
        "FilterPattern": Property(
            required=True, reason="Patterns for plain text only; patterns for JSON and columns are rejected."
        ),
        "LogGroupName": Property(create_only=True, required=True),
        "MetricTransformations": Property(
            members={
                **dict.fromkeys(("DefaultValue", "MetricName", "MetricNamespace", "MetricValue", "Unit")),
                "Dimensions": KEYS_AND_VALUES,
            },
            required=True,
            inner={
                "Dimensions": "Rejected: they refer to JSON fields or columns.",
                "MetricValue": "A number; references to values in the lines are rejected.",
            },
        ),
    },
    put_operation="put_metric_filter",
    deletion=Deletion("delete_metric_filter", "ResourceNotFoundException"),
)

TYPES = (_ALARM, _DASHBOARD, _LOG_GROUP, _METRIC_FILTER)
