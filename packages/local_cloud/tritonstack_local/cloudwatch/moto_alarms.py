"""Correct moto's alarms: moto never evaluates alarms, and starts each in state OK.

Also, moto resets the state when an alarm is put again, has no history, rejects statistics other than
percentiles, and applies only one filter of DescribeAlarms.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, cast
from weakref import WeakKeyDictionary

from moto.cloudwatch.exceptions import ResourceNotFound, ValidationError
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core.responses import ActionResult, EmptyResult

from tritonstack_local.cloudwatch.alarm_rules import (
    FIELDS,
    INITIAL_REASON,
    STATES,
    AlarmRejectedError,
    AlarmSpec,
    State,
    read_alarm,
)
from tritonstack_local.cloudwatch.store import moment, seconds, timestamp
from tritonstack_local.moto_patches import correct
from tritonstack_local.scope import Scope

_HISTORY_LIMIT = 500
_SUBJECT_LIMIT = 100
_ACTIONS = {"ALARM": "AlarmActions", "OK": "OKActions", "INSUFFICIENT_DATA": "InsufficientDataActions"}
_OUTSIDE_TRIGGER = ("AlarmName", "AlarmDescription", "ActionsEnabled", *_ACTIONS.values())


class StateChange(NamedTuple):
    """The actions of an alarm's new state, and the message to its topics."""

    actions: Sequence[str]
    subject: str
    message: str


OnChange = Callable[["AlarmRecord", StateChange], None]
"""Receives changes of alarms whose actions are enabled."""


@dataclass(frozen=True)
class AlarmRecord:
    """A view of one of moto's alarms."""

    scope: Scope
    record: Any
    """moto's own."""
    spec: AlarmSpec

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.record.name)

    @property
    def state(self) -> State:
        """Its current state."""
        return cast("State", self.record.state_value)

    @property
    def given(self) -> Mapping[str, Any]:
        """The request that created it."""
        return cast("Mapping[str, Any]", self.record.given)

    @property
    def actions(self) -> Sequence[str]:
        """The enabled actions of its current state."""
        return self.given.get(_ACTIONS[self.state]) or () if self.record.actions_enabled else ()

    @property
    def configuration(self) -> object:
        """A value that changes with every PutMetricAlarm."""
        return self.record.configuration_updated_timestamp

    @property
    def transitioned(self) -> float:
        """When its current state began."""
        return seconds(self.record.state_transitioned_timestamp)

    def move(self, state: State, *, reason: str, at: float, on_change: OnChange) -> None:
        """Set its state; a change triggers its actions."""
        record, before = self.record, self.state
        old = {"stateValue": before, "stateReason": record.state_reason}
        record.state_value, record.state_reason, record.state_updated_timestamp = state, reason, moment(at)
        if state == before:
            return
        record.state_transitioned_timestamp = moment(at)
        new = {"stateValue": state, "stateReason": reason}
        summary = f"Alarm updated from {before} to {state}"
        note(record, "StateUpdate", summary, {"version": "1.0", "oldState": old, "newState": new}, at)
        if self.actions:
            on_change(self, self._change(before, at))

    def _change(self, before: State, at: float) -> StateChange:
        record, given, scope = self.record, self.given, self.scope
        message = {
            "AlarmName": self.name,
            "AlarmDescription": given.get("AlarmDescription"),
            "AWSAccountId": scope.account,
            "AlarmConfigurationUpdatedTimestamp": timestamp(seconds(record.configuration_updated_timestamp)),
            "NewStateValue": self.state,
            "NewStateReason": record.state_reason,
            "StateChangeTime": timestamp(at),
            "Region": scope.region,
            "AlarmArn": record.alarm_arn,
            "OldStateValue": before,
            **{name: list(given.get(name) or ()) for name in _ACTIONS.values()},
            "Trigger": {name: value for name, value in given.items() if name not in _OUTSIDE_TRIGGER},
        }
        subject = f'{self.state}: "{self.name}" in {scope.region}'[:_SUBJECT_LIMIT]
        return StateChange(self.actions, subject, json.dumps(message))

    def note_action(self, action: str, *, failure: str | None) -> None:
        """Record an action in the history."""
        summary = f"Successfully executed action {action}"
        if failure is not None:
            summary = f"Failed to execute action {action}. Received error: {failure}"
        outcome = {
            "actionState": "Failed" if failure else "Succeeded",
            "notificationResource": action,
            "error": failure,
        }
        note(self.record, "Action", summary, outcome, time.time())


_specs: WeakKeyDictionary[Any, AlarmSpec] = WeakKeyDictionary()


def held_alarms() -> dict[tuple[Scope, str], AlarmRecord]:
    """Return all alarms of all scopes."""
    backends: list[tuple[str, str, Any]] = list(cloudwatch_backends.iter_backends())
    return {
        (scope, alarm.name): held_alarm(scope, alarm)
        for account, region, backend in backends
        for scope in (Scope(account, region),)
        for alarm in list(backend.alarms.values())
        if hasattr(alarm, "given")
    }


def find_alarm(scope: Scope, name: str) -> AlarmRecord | None:
    """Return an alarm; None if it does not exist."""
    alarm = cloudwatch_backends[scope.account][scope.region].alarms.get(name)
    return None if alarm is None else held_alarm(scope, alarm)


def held_alarm(scope: Scope, alarm: Any) -> AlarmRecord:
    """Return a view of one of moto's alarms; its definition is parsed once."""
    spec = _specs.get(alarm)
    if spec is None:
        spec = _specs[alarm] = read_alarm(alarm.given)
    return AlarmRecord(scope, alarm, spec)


def note(alarm: Any, kind: str, summary: str, data: Mapping[str, Any], at: float) -> None:
    """Write into an alarm's history; the oldest of many go."""
    alarm.history.append(
        {
            "AlarmName": alarm.name,
            "AlarmType": "MetricAlarm",
            "Timestamp": moment(at),
            "HistoryItemType": kind,
            "HistorySummary": summary,
            "HistoryData": json.dumps(data),
        }
    )
    del alarm.history[:-_HISTORY_LIMIT]


_PAGE = 100
_KEPT = (
    "history", "state_value", "state_reason", "state_updated_timestamp", "state_transitioned_timestamp",
)  # fmt: skip

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
        (CloudWatchResponse, "put_composite_alarm", _rejecting("PutCompositeAlarm")),
        (CloudWatchResponse, "describe_alarms", _answer_describe_alarms),
        (CloudWatchResponse, "delete_alarms", _answer_delete_alarms),
        (CloudWatchResponse, "describe_alarms_for_metric", _rejecting("DescribeAlarmsForMetric")),
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


def _rejecting(action: str) -> Callable[[Any], NoReturn]:
    def reject(_response: Any) -> NoReturn:
        raise ValidationError(f"The local cloud does not support {action}.")

    return reject


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
