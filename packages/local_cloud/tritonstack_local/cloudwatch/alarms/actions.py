"""Correct moto's alarms: moto never evaluates alarms, and starts each in state OK.

Also, moto resets the state when an alarm is put again, has no history, rejects statistics other than
percentiles, and applies only one filter of DescribeAlarms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from moto.cloudwatch.exceptions import ResourceNotFound, ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from tritonstack_local.cloudwatch.alarms.records import OnChange, held_alarm, note
from tritonstack_local.cloudwatch.alarms.spec import FIELDS, AlarmRejectedError, read_alarm
from tritonstack_local.cloudwatch.alarms.state import INITIAL_REASON, STATES
from tritonstack_local.cloudwatch.store import key_of
from tritonstack_local.cloudwatch.timestamps import seconds
from tritonstack_local.moto_patches.patching import correct
from tritonstack_local.scope import Scope

_PAGE = 100
_KEPT = (
    "history", "state_value", "state_reason", "state_updated_timestamp", "state_transitioned_timestamp",
)  # fmt: skip

_METRIC_FIELDS = ("Period", "Unit", "Statistic", "ExtendedStatistic")

_put_alarm = CloudWatchBackend.put_metric_alarm
_moto_answers_put = CloudWatchResponse.put_metric_alarm
_moto_answers_delete = CloudWatchResponse.delete_alarms
_moto_answers_describe = CloudWatchResponse.describe_alarms


def apply(*, on_change: OnChange) -> None:
    """Correct moto; `on_change` receives every change that has actions."""

    def set_alarm_state(backend: Any, name: str, why: str, _data: str, state: str) -> None:
        if name not in backend.alarms:
            raise ResourceNotFound
        if state not in STATES:
            raise ValidationError(
                f"1 validation error detected: Value '{state}' at 'stateValue' failed to satisfy "
                f"constraint: Member must satisfy enum value set: [{', '.join(STATES)}]"
            )
        record = held_alarm(Scope(backend.account_id, backend.region_name), backend.alarms[name])
        record.move(state, reason=why, at=time.time(), on_change=on_change)

    correct(
        (CloudWatchBackend, "set_alarm_state", set_alarm_state),
        (CloudWatchBackend, "put_metric_alarm", _put_metric_alarm),
        (CloudWatchResponse, "put_metric_alarm", _answer_put_metric_alarm),
        (CloudWatchResponse, "put_composite_alarm", _reject_composite_alarm),
        (CloudWatchResponse, "describe_alarms", _answer_describe_alarms),
        (CloudWatchResponse, "delete_alarms", _answer_delete_alarms),
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
        alarm.state_value, alarm.state_reason = "INSUFFICIENT_DATA", INITIAL_REASON
        alarm.state_updated_timestamp = alarm.state_transitioned_timestamp = now
    else:
        for name in _KEPT:
            setattr(alarm, name, getattr(before, name, now))
    alarm.state_reason_data = None
    verb = "created" if before is None else "updated"
    note(alarm, "ConfigurationUpdate", f'Alarm "{alarm.name}" {verb}', {"version": "1.0"}, seconds(now))
    return alarm


def _answer_put_metric_alarm(response: Any) -> Any:
    fields = {name: response.params[name] for name in FIELDS if response.params.get(name) is not None}
    try:
        read_alarm(fields)
    except AlarmRejectedError as error:
        raise ValidationError(str(error)) from error
    _moto_answers_put(response)
    response.cloudwatch_backend.alarms[fields["AlarmName"]].given = fields
    return EmptyResult()


def _reject_composite_alarm(_response: Any) -> NoReturn:
    raise ValidationError("The local cloud does not support PutCompositeAlarm.")


def _answer_describe_alarms(response: Any) -> ActionResult:
    request, answer = response.params, cast("Any", _moto_answers_describe(response))
    is_wanted = "MetricAlarm" in (request.get("AlarmTypes") or ["MetricAlarm"])
    alarms = [
        alarm
        for alarm in answer.result["MetricAlarms"]
        if is_wanted
        and alarm.name.startswith(request.get("AlarmNamePrefix", ""))
        and request.get("StateValue", alarm.state_value) == alarm.state_value
    ]
    return ActionResult({**answer.result, "MetricAlarms": alarms})


def _answer_delete_alarms(response: Any) -> Any:
    if not set(response.params["AlarmNames"]) <= response.cloudwatch_backend.alarms.keys():
        raise ResourceNotFound
    return _moto_answers_delete(response)


def _answer_describe_alarms_for_metric(response: Any) -> ActionResult:
    request, key = response.params, key_of(response.params)
    alarms = [
        alarm
        for alarm in response.cloudwatch_backend.alarms.values()
        if alarm.given.get("MetricName")
        and key_of(alarm.given) == key
        and all(alarm.given.get(name) == request[name] for name in _METRIC_FIELDS if name in request)
    ]
    return ActionResult({"MetricAlarms": alarms})


def _answer_describe_alarm_history(response: Any) -> ActionResult:
    request = response.params
    items = [
        item
        for alarm in response.cloudwatch_backend.alarms.values()
        if request.get("AlarmName", alarm.name) == alarm.name
        for item in alarm.history
        if _matches_request(item, request)
    ]
    newest_first = request.get("ScanBy", "TimestampDescending") == "TimestampDescending"
    items.sort(key=lambda item: item["Timestamp"], reverse=newest_first)
    start = int(request.get("NextToken") or 0)
    end = start + int(request.get("MaxRecords") or _PAGE)
    token = str(end) if end < len(items) else None
    return ActionResult({"AlarmHistoryItems": items[start:end], "NextToken": token})


def _matches_request(item: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    at = seconds(item["Timestamp"])
    return (
        request.get("HistoryItemType", item["HistoryItemType"]) == item["HistoryItemType"]
        and ("StartDate" not in request or at >= seconds(request["StartDate"]))
        and ("EndDate" not in request or at <= seconds(request["EndDate"]))
    )
