"""Build the SNS message of an alarm's state change as CloudWatch publishes it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from botocore.loaders import Loader

from tritonstack_local.cloudwatch.timestamps import timestamp
from tritonstack_local.scope import Scope

_SUBJECT_LIMIT = 100


@dataclass(frozen=True)
class StateChange:
    """A state change of an alarm, with the request that created the alarm."""

    scope: Scope
    arn: str
    given: Mapping[str, Any]
    configured_at: float
    before: str
    state: str
    reason: str
    at: float
    triggered_by: tuple[Mapping[str, Any], ...] = ()
    """The alarms that triggered a composite alarm."""

    @property
    def name(self) -> str:
        """The alarm's name."""
        return str(self.given["AlarmName"])

    @property
    def actions(self) -> Sequence[str]:
        """The actions of the new state."""
        return actions_of(self.given, self.state)


_ACTIONS = {"ALARM": "AlarmActions", "OK": "OKActions", "INSUFFICIENT_DATA": "InsufficientDataActions"}


def actions_of(configuration: Mapping[str, Any], state: str) -> Sequence[str]:
    """Return the actions of an alarm in a state."""
    return list(configuration.get(_ACTIONS[state]) or [])


def subject(change: StateChange) -> str:
    """Return the subject of the message."""
    return f'{change.state}: "{change.name}" in {region_name(change.scope.region)}'[:_SUBJECT_LIMIT]


def message(change: StateChange) -> str:
    """Return the message body."""
    alarm = change.given
    shown = {
        "AlarmName": change.name,
        "AlarmDescription": alarm.get("AlarmDescription"),
        "AWSAccountId": change.scope.account,
        "AlarmConfigurationUpdatedTimestamp": timestamp(change.configured_at),
        "NewStateValue": change.state,
        "NewStateReason": change.reason,
        "StateChangeTime": timestamp(change.at),
        "Region": region_name(change.scope.region),
        "AlarmArn": change.arn,
        "OldStateValue": change.before,
        **{
            name: list(alarm.get(name) or [])
            for name in ("OKActions", "AlarmActions", "InsufficientDataActions")
        },
    }
    if "AlarmRule" in alarm:
        return json.dumps(shown | {"AlarmRule": alarm["AlarmRule"], "TriggeringChildren": _children(change)})
    return json.dumps(shown | {"Trigger": _trigger(alarm)})


@lru_cache
def region_name(region: str) -> str:
    """Return the display name of a region."""
    for partition in Loader().load_data("endpoints")["partitions"]:
        if region in partition["regions"]:
            return str(partition["regions"][region]["description"])
    return region


def _children(change: StateChange) -> list[dict[str, Any]]:
    return [
        {
            "Arn": child["arn"],
            "State": {"Value": child["state"]["value"], "Timestamp": child["state"]["timestamp"]},
        }
        for child in change.triggered_by
    ]


def _trigger(configuration: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "EvaluationPeriods": configuration["EvaluationPeriods"],
        "DatapointsToAlarm": configuration.get("DatapointsToAlarm"),
        "ComparisonOperator": configuration["ComparisonOperator"],
        "Threshold": configuration["Threshold"],
        "TreatMissingData": configuration.get("TreatMissingData") or "missing",
        "EvaluateLowSampleCountPercentile": configuration.get("EvaluateLowSampleCountPercentile") or "",
    }
    shown = {name: value for name, value in shown.items() if value is not None}
    if configuration.get("Metrics"):
        return shown | {"Metrics": [_query(query) for query in configuration["Metrics"]]}
    extended = configuration.get("ExtendedStatistic")
    statistic = (
        {"StatisticType": "ExtendedStatistic", "ExtendedStatistic": extended}
        if extended
        else {"StatisticType": "Statistic", "Statistic": _STATISTICS[configuration["Statistic"]]}
    )
    return {
        "MetricName": configuration["MetricName"],
        "Namespace": configuration["Namespace"],
        **statistic,
        "Unit": configuration.get("Unit"),
        "Dimensions": _dimensions(configuration.get("Dimensions")),
        "Period": configuration["Period"],
        **shown,
    }


_STATISTICS = {
    "SampleCount": "SAMPLE_COUNT",
    "Average": "AVERAGE",
    "Sum": "SUM",
    "Minimum": "MINIMUM",
    "Maximum": "MAXIMUM",
}


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: query[name] for name in ("Id", "Label", "Expression") if name in query}
    shown["ReturnData"] = query.get("ReturnData", True)
    stat = query.get("MetricStat")
    if stat:
        metric = dict(stat["Metric"]) | {"Dimensions": _dimensions(stat["Metric"].get("Dimensions"))}
        shown["MetricStat"] = dict(stat) | {"Metric": metric}
    return shown


def _dimensions(dimensions: Sequence[Mapping[str, str]] | None) -> list[dict[str, str]]:
    return [{"value": item["Value"], "name": item["Name"]} for item in dimensions or []]
