"""Correct moto's alarms: moto never evaluates alarms, and starts each in state OK.

Also, moto resets the state when an alarm is put again, has no history, rejects statistics other than
percentiles, lacks actions of composite alarms, and always includes them in DescribeAlarms.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from moto.cloudwatch.exceptions import InvalidFormat, ResourceNotFound, ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from tritonstack.base.files import parse_json
from tritonstack_local.cloudwatch.alarms.records import OnChange, held_alarm, note
from tritonstack_local.cloudwatch.alarms.rules import RuleError, check_rule, parse_rule
from tritonstack_local.cloudwatch.alarms.spec import AlarmRejectedError, read_alarm
from tritonstack_local.cloudwatch.alarms.state import INITIAL_REASON, STATES, State
from tritonstack_local.cloudwatch.timestamps import seconds
from tritonstack_local.moto_patches.patching import correct
from tritonstack_local.scope import Scope

_PAGE = 100
_ALARM_FIELDS = (
    "AlarmName",
    "AlarmDescription",
    "ActionsEnabled",
    "OKActions",
    "AlarmActions",
    "InsufficientDataActions",
)
_METRIC_FIELDS = (
    "MetricName", "Namespace", "Statistic", "ExtendedStatistic", "Dimensions", "Period", "Unit",
    "EvaluationPeriods", "DatapointsToAlarm", "Threshold", "ComparisonOperator", "TreatMissingData",
    "EvaluateLowSampleCountPercentile", "Metrics", "ThresholdMetricId", "EvaluationCriteria",
    "EvaluationInterval", "EvaluationWindow", "WarmUpConfiguration", "ActionConfiguration",
)  # fmt: skip
SUPPRESSION = ("ActionsSuppressor", "ActionsSuppressorWaitPeriod", "ActionsSuppressorExtensionPeriod")
NO_SUPPRESSION = "alarms do not suppress each other"

_put_alarm = CloudWatchBackend.put_metric_alarm


def apply(*, on_change: OnChange) -> None:
    """Correct moto; `on_change` receives every change that has actions."""

    def set_alarm_state(backend: Any, name: str, why: str, data: str, state: str) -> None:
        _check_state(backend, name, data, state)
        record = held_alarm(Scope(backend.account_id, backend.region_name), backend.alarms[name])
        record.move(cast("State", state), reason=why, data=data, at=time.time(), on_change=on_change)

    correct(
        (CloudWatchBackend, "set_alarm_state", set_alarm_state),
        (CloudWatchBackend, "put_metric_alarm", _put_metric_alarm),
        (CloudWatchBackend, "delete_alarms", _delete_alarms),
        (CloudWatchResponse, "put_metric_alarm", _answer_put_metric_alarm),
        (CloudWatchResponse, "put_composite_alarm", _answer_put_composite_alarm),
        (CloudWatchResponse, "describe_alarms", _answer_describe_alarms),
        (CloudWatchResponse, "describe_alarms_for_metric", _answer_describe_alarms_for_metric),
        (CloudWatchResponse, "describe_alarm_history", _answer_describe_alarm_history),
    )


def _put_metric_alarm(backend: Any, **fields: Any) -> Any:
    """Store an alarm in moto; keep the state and history of an earlier one with its name."""
    before, statistic = backend.alarms.get(fields["name"]), fields.get("extended_statistic")
    fields["extended_statistic"] = statistic if str(statistic).startswith("p") else None
    alarm: Any = _put_alarm(backend, **fields)
    alarm.extended_statistic = statistic
    now = alarm.configuration_updated_timestamp
    if before is None:
        alarm.state_value, alarm.state_reason, alarm.state_reason_data = (
            "INSUFFICIENT_DATA",
            INITIAL_REASON,
            None,
        )
        alarm.state_updated_timestamp = alarm.state_transitioned_timestamp = now
    else:
        for name in _KEPT:
            setattr(alarm, name, getattr(before, name, now))
    verb = "created" if before is None else "updated"
    note(alarm, "ConfigurationUpdate", f'Alarm "{alarm.name}" {verb}', {"version": "1.0"}, seconds(now))
    return alarm


_KEPT = (
    "history", "state_value", "state_reason", "state_reason_data",
    "state_updated_timestamp", "state_transitioned_timestamp",
)  # fmt: skip


def _delete_alarms(backend: Any, alarm_names: list[str]) -> None:
    missing = [name for name in alarm_names if name not in backend.alarms]
    if missing:
        raise ResourceNotFound(f"The alarms {', '.join(missing)} do not exist")
    for name in alarm_names:
        del backend.alarms[name]


def _answer_put_metric_alarm(response: Any) -> Any:
    fields = _given(response, (*_ALARM_FIELDS, *_METRIC_FIELDS))
    try:
        read_alarm(fields)
    except AlarmRejectedError as error:
        raise ValidationError(str(error)) from error
    return _answer_put(response, fields)


def _answer_put_composite_alarm(response: Any) -> Any:
    fields = _given(response, (*_ALARM_FIELDS, "AlarmRule", *SUPPRESSION))
    name, alarms = fields["AlarmName"], response.cloudwatch_backend.alarms
    unsupported = [field for field in SUPPRESSION if field in fields]
    if unsupported:
        raise ValidationError(
            f"The local cloud does not support {unsupported[0]} in PutCompositeAlarm: {NO_SUPPRESSION}."
        )
    try:
        rules = {key: parse_rule(alarm.rule) for key, alarm in alarms.items() if alarm.rule}
        rules[name] = parse_rule(fields["AlarmRule"])
        check_rule(name, rules, exists=alarms.__contains__)
    except RuleError as error:
        raise ValidationError(f"Could not save the composite alarm: AnyRule: {error}") from error
    return _answer_put(response, fields)


def _answer_put(response: Any, fields: dict[str, Any]) -> EmptyResult:
    _moto_answers_put(response)
    response.cloudwatch_backend.alarms[fields["AlarmName"]].given = fields
    return EmptyResult()


_moto_answers_put = CloudWatchResponse.put_metric_alarm


def _answer_describe_alarms(response: Any) -> ActionResult:
    request = response.params
    for name in ("ChildrenOfAlarmName", "ParentsOfAlarmName"):
        if name in request:
            raise ValidationError(f"The local cloud does not support {name} in DescribeAlarms.")
    types = request.get("AlarmTypes") or ["MetricAlarm"]
    alarms = [
        alarm
        for alarm in sorted(response.cloudwatch_backend.alarms.values(), key=lambda alarm: alarm.name)
        if ("CompositeAlarm" if alarm.rule else "MetricAlarm") in types and _is_requested(alarm, request)
    ]
    page, token = _page(alarms, request)
    return ActionResult(
        {
            "MetricAlarms": [alarm for alarm in page if not alarm.rule],
            "CompositeAlarms": [alarm for alarm in page if alarm.rule],
            "NextToken": token,
        }
    )


def _is_requested(alarm: Any, request: Mapping[str, Any]) -> bool:
    actions = (*alarm.alarm_actions, *alarm.ok_actions, *alarm.insufficient_data_actions)
    return (
        ("AlarmNames" not in request or alarm.name in request["AlarmNames"])
        and alarm.name.startswith(request.get("AlarmNamePrefix", ""))
        and request.get("StateValue", alarm.state_value) == alarm.state_value
        and ("ActionPrefix" not in request or any(arn.startswith(request["ActionPrefix"]) for arn in actions))
    )


def _answer_describe_alarms_for_metric(response: Any) -> ActionResult:
    request = response.params
    plain = ("Namespace", "MetricName", "Statistic", "ExtendedStatistic", "Period", "Unit")
    alarms = [
        alarm
        for alarm in response.cloudwatch_backend.alarms.values()
        if all(alarm.given.get(name) == request[name] for name in plain if name in request)
        and _dimensions(alarm.given) == _dimensions(request)
    ]
    return ActionResult({"MetricAlarms": alarms})


def _dimensions(fields: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(item["Name"], item["Value"]) for item in fields.get("Dimensions") or []}


def _answer_describe_alarm_history(response: Any) -> ActionResult:
    request = response.params
    types = request.get("AlarmTypes") or ["MetricAlarm"]
    alarms = [
        alarm
        for alarm in response.cloudwatch_backend.alarms.values()
        if request.get("AlarmName", alarm.name) == alarm.name
        and ("CompositeAlarm" if alarm.rule else "MetricAlarm") in types
    ]
    items = [item for alarm in alarms for item in alarm.history if _matches_request(item, request)]
    newest_first = request.get("ScanBy", "TimestampDescending") == "TimestampDescending"
    items.sort(key=lambda item: item["Timestamp"], reverse=newest_first)
    page, token = _page(items, request)
    return ActionResult({"AlarmHistoryItems": page, "NextToken": token})


def _matches_request(item: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    at = seconds(item["Timestamp"])
    return (
        request.get("HistoryItemType", item["HistoryItemType"]) == item["HistoryItemType"]
        and ("StartDate" not in request or at >= seconds(request["StartDate"]))
        and ("EndDate" not in request or at <= seconds(request["EndDate"]))
    )


def _page(items: list[Any], request: Mapping[str, Any]) -> tuple[list[Any], str | None]:
    """A token is the index of the next page."""
    start = int(request.get("NextToken") or 0)
    end = start + int(request.get("MaxRecords") or _PAGE)
    return items[start:end], str(end) if end < len(items) else None


def _given(response: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: response.params[name] for name in names if response.params.get(name) is not None}


def _check_state(backend: Any, name: str, data: str | None, state: str) -> None:
    try:
        parse_json(data or "{}")
    except ValueError as error:
        raise InvalidFormat("StateReasonData is not valid JSON") from error
    if name not in backend.alarms:
        raise ResourceNotFound
    if state not in STATES:
        raise ValidationError(
            f"1 validation error detected: Value '{state}' at 'stateValue' failed to satisfy constraint: "
            f"Member must satisfy enum value set: [{', '.join(STATES)}]"
        )
