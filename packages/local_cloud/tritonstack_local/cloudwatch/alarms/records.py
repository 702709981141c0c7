"""Read alarms from moto's records, and change their state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from moto.cloudwatch.models import cloudwatch_backends

from tritonstack_local.cloudwatch.alarms.spec import AlarmSpec, read_alarm
from tritonstack_local.cloudwatch.alarms.state import State
from tritonstack_local.cloudwatch.timestamps import moment, seconds, timestamp
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


_read: dict[int, tuple[Any, AlarmRecord]] = {}


def held_alarms() -> dict[tuple[Scope, str], AlarmRecord]:
    """Return all alarms of all scopes. Cheap to call repeatedly."""
    backends: list[tuple[str, str, Any]] = list(cloudwatch_backends.iter_backends())
    records = {
        (Scope(account, region), alarm.name): alarm
        for account, region, backend in backends
        for alarm in list(backend.alarms.values())
        if hasattr(alarm, "given")
    }
    gone = _read.keys() - {id(alarm) for alarm in records.values()}
    for number in gone:
        del _read[number]
    return {key: held_alarm(key[0], alarm) for key, alarm in records.items()}


def held_alarm(scope: Scope, alarm: Any) -> AlarmRecord:
    """Return a view of one of moto's alarms; its definition is parsed once."""
    cached = _read.get(id(alarm))
    if cached is not None and cached[0] is alarm:
        return cached[1]
    record = AlarmRecord(scope, alarm, read_alarm(alarm.given))
    _read[id(alarm)] = alarm, record
    return record


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
