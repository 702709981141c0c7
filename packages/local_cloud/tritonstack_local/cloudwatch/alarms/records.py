"""Read alarms from moto's records, and change their state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moto.cloudwatch.models import cloudwatch_backends

from tritonstack.base.files import parse_json
from tritonstack_local.cloudwatch.alarms.notifications import StateChange, actions_of
from tritonstack_local.cloudwatch.alarms.rules import Rule, parse_rule
from tritonstack_local.cloudwatch.alarms.spec import AlarmSpec, read_alarm
from tritonstack_local.cloudwatch.alarms.state import State
from tritonstack_local.cloudwatch.timestamps import moment, seconds
from tritonstack_local.scope import Scope

_HISTORY_LIMIT = 500

OnChange = Callable[[StateChange, "AlarmRecord"], None]
"""Receives changes that have actions."""


@dataclass(frozen=True)
class AlarmRecord:
    """A view of one of moto's alarms."""

    scope: Scope
    record: Any
    """moto's own."""
    spec: AlarmSpec | None
    rule: Rule | None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.record.name)

    @property
    def arn(self) -> str:
        """Its ARN."""
        return str(self.record.alarm_arn)

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
        return actions_of(self.given, self.state) if self.record.actions_enabled else ()

    @property
    def configuration(self) -> object:
        """A value that changes with every PutMetricAlarm."""
        return self.record.configuration_updated_timestamp

    @property
    def transitioned(self) -> float:
        """When its current state began."""
        return seconds(self.record.state_transitioned_timestamp)

    def move(self, state: State, *, reason: str, data: str | None, at: float, on_change: OnChange) -> None:
        """Set its state; a change triggers its actions."""
        record, before = self.record, self.state
        old = {"stateValue": before, "stateReason": record.state_reason}
        new: dict[str, Any] = {"stateValue": state, "stateReason": reason}
        details = parse_json(data) if data else None
        if details is not None:
            new["stateReasonData"] = details
        date = moment(at)
        record.state_value, record.state_reason, record.state_reason_data = state, reason, data
        record.state_updated_timestamp = date
        if state == before:
            return
        record.state_transitioned_timestamp = date
        summary = f"Alarm updated from {before} to {state}"
        note(record, "StateUpdate", summary, {"version": "1.0", "oldState": old, "newState": new}, at)
        if record.actions_enabled:
            triggered = tuple((details or {}).get("triggeringAlarms", ()))
            configured = seconds(record.configuration_updated_timestamp)
            on_change(
                StateChange(
                    self.scope, self.arn, self.given, configured, before, state, reason, at, triggered
                ),
                self,
            )

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
    rule = alarm.given.get("AlarmRule")
    record = AlarmRecord(
        scope, alarm, None if rule else read_alarm(alarm.given), parse_rule(rule) if rule else None
    )
    _read[id(alarm)] = alarm, record
    return record


def note(alarm: Any, kind: str, summary: str, data: Mapping[str, Any], at: float) -> None:
    """Write into an alarm\'s history; the oldest of many go."""
    alarm.history.append(
        {
            "AlarmName": alarm.name,
            "AlarmType": "CompositeAlarm" if alarm.rule else "MetricAlarm",
            "Timestamp": moment(at),
            "HistoryItemType": kind,
            "HistorySummary": summary,
            "HistoryData": json.dumps(data),
        }
    )
    del alarm.history[:-_HISTORY_LIMIT]
