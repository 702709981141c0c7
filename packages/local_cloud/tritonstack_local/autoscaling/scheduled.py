"""The actions on scheduled actions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tritonstack_local.autoscaling.errors import no_action
from tritonstack_local.autoscaling.records import NAMESPACE, AutoScalingTables, ScheduledRecord, TargetId
from tritonstack_local.autoscaling.requests import (
    check_namespace,
    key_fields,
    paged,
    registered,
    selected,
    target_id,
)
from tritonstack_local.autoscaling.schedules import ScheduleError, parse_schedule, utc
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import validation_exception
from tritonstack_local.service.wire import Fields


class ScheduledActions:
    """Puts, describes, and deletes scheduled actions."""

    def __init__(self, *, store: AutoScalingTables) -> None:
        self._store = store

    def put(self, scope: Scope, request: Fields) -> Fields:
        """Create an action, or change what the request names. Its calendar starts now."""
        target = target_id(request)
        registered(self._store, scope, target)
        name = f"{target.name}|{request['ScheduledActionName']}"
        now = time.time()
        changed = self._store.scheduled.change(scope, name, lambda record: _changed(record, request, now))
        if changed is None:
            self._store.scheduled.add(scope, _new(scope, target, request, now))
        return {}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe actions."""
        check_namespace(request)
        names = request.get("ScheduledActionNames") or None
        actions = [
            record
            for record in self._store.scheduled.within(scope)
            if selected(request, record.target) and (names is None or record.action in names)
        ]
        return paged(actions, request, "ScheduledActions", _shown)

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete an action."""
        target, action = target_id(request), request["ScheduledActionName"]
        if self._store.scheduled.remove(scope, f"{target.name}|{action}") is None:
            raise no_action(target, action)
        return {}


def _new(scope: Scope, target: TargetId, request: Fields, now: float) -> ScheduledRecord:
    if "Schedule" not in request:
        raise validation_exception("Schedule must be specified to create a scheduled action")
    action = request["ScheduledActionName"]
    place = f"scheduledAction:{NAMESPACE}/{target.resource}:scheduledActionName/{action}"
    return _checked(
        ScheduledRecord(
            target=target,
            action=action,
            arn=scope.arn("autoscaling", place),
            created=datetime.now(UTC),
            schedule=request["Schedule"],
            timezone=request.get("Timezone"),
            start=request.get("StartTime"),
            end=request.get("EndTime"),
            limits=request.get("ScalableTargetAction") or {},
            since=now,
            done=now,
        )
    )


def _changed(record: ScheduledRecord, request: Fields, now: float) -> ScheduledRecord:
    """As on AWS, start and end times that are not given are deleted."""
    return _checked(
        replace(
            record,
            schedule=request.get("Schedule", record.schedule),
            timezone=request.get("Timezone", record.timezone),
            start=request.get("StartTime"),
            end=request.get("EndTime"),
            limits=request.get("ScalableTargetAction") or record.limits,
            since=now,
            done=now,
        )
    )


def _checked(record: ScheduledRecord) -> ScheduledRecord:
    try:
        parse_schedule(record.schedule)
        ZoneInfo(record.timezone or "UTC")
    except ScheduleError as error:
        raise validation_exception(f"Schedule expression is invalid: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise validation_exception(f"Timezone {record.timezone!r} is not a known time zone") from error
    low, high = record.limits.get("MinCapacity"), record.limits.get("MaxCapacity")
    if low is not None and high is not None and low > high:
        raise validation_exception("Maximum capacity cannot be less than minimum capacity")
    if record.start is not None and record.end is not None and record.end <= record.start:
        raise validation_exception("EndTime must be after StartTime")
    return record


def _shown(record: ScheduledRecord) -> Mapping[str, Any]:
    return {
        **key_fields(record.target),
        "ScheduledActionName": record.action,
        "ScheduledActionARN": record.arn,
        "Schedule": record.schedule,
        "Timezone": record.timezone,
        "StartTime": None if record.start is None else utc(record.start),
        "EndTime": None if record.end is None else utc(record.end),
        "ScalableTargetAction": record.limits,
        "CreationTime": record.created,
    }
