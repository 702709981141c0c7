"""The WSGI application of Application Auto Scaling's API."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from botocore import xform_name

from tritonstack_local.autoscaling.decisions import AlarmReading
from tritonstack_local.autoscaling.records import AutoScalingTables, TargetRecord
from tritonstack_local.autoscaling.requests import (
    TrackingAlarms,
    check_beside,
    described,
    missing,
    read_action,
    read_policy,
    resource_of,
)
from tritonstack_local.autoscaling.scaler import History, Scaler
from tritonstack_local.cloudwatch.alarm_rules import decide as decide_state
from tritonstack_local.cloudwatch.moto_alarms import AlarmRecord, find_alarm
from tritonstack_local.sagemaker.endpoints import Endpoints
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.tables import Tables
from tritonstack_local.service.wire import ControlPlane, Fields
from tritonstack_local.settings import TimeScale
from tritonstack_local.tagging import TaggedResource

Item = TypeVar("Item")
SERVICE = "application-autoscaling"
OFFERED = (
    "RegisterScalableTarget",
    "DescribeScalableTargets",
    "DeregisterScalableTarget",
    "TagResource",
    "UntagResource",
    "ListTagsForResource",
    "PutScalingPolicy",
    "DescribeScalingPolicies",
    "DeleteScalingPolicy",
    "PutScheduledAction",
    "DescribeScheduledActions",
    "DeleteScheduledAction",
    "DescribeScalingActivities",
)
"""The actions of the API, each a method of `ScalingActions` by its name in boto3."""
_SUSPENSIONS = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended")


class ScalingActions:
    """All actions. Thread-safe."""

    def __init__(self, *, store: AutoScalingTables, alarms: TrackingAlarms, history: History) -> None:
        self._store = store
        self._alarms = alarms
        self._history = history

    def register_scalable_target(self, scope: Scope, request: Fields) -> Fields:
        """Register a target, or change what the request names."""
        resource = resource_of(request)
        record = self._store.targets.change(scope, resource, lambda before: _changed(before, request))
        if record is None:
            record = _changed(_new_target(scope, resource, request), request)
            self._store.targets.add(scope, record)
        self._store.tags.put(record.arn, _pairs(request.get("Tags") or {}))
        return {"ScalableTargetARN": record.arn}

    def describe_scalable_targets(self, scope: Scope, request: Fields) -> Fields:
        """Describe targets."""
        return described(self._store.targets.within(scope), request, "ScalableTargets")

    def deregister_scalable_target(self, scope: Scope, request: Fields) -> Fields:
        """Remove a target with what belongs to it."""
        target = self._target(scope, resource_of(request))
        self.remove(scope, target.resource, "The scalable target was deregistered.")
        return {}

    def remove(self, scope: Scope, resource: str, reason: str) -> None:
        """Remove a target with its policies and their alarms; its history stays."""
        target = self._store.targets.remove(scope, resource)
        if target is not None:
            names = [name for policy in target.policies.values() for name in policy.alarms]
            self._alarms.delete(scope, names)
            self._history.end(scope, target, failure=reason)
            self._store.tags.forget(target.arn)

    def tag_resource(self, scope: Scope, request: Fields) -> Fields:
        """Tag a target."""
        self._store.tags.put(self._tagged(scope, request), _pairs(request["Tags"]))
        return {}

    def untag_resource(self, scope: Scope, request: Fields) -> Fields:
        """Remove tags of a target."""
        self._store.tags.drop(self._tagged(scope, request), request["TagKeys"])
        return {}

    def list_tags_for_resource(self, scope: Scope, request: Fields) -> Fields:
        """List the tags of a target."""
        tags = self._store.tags.of(self._tagged(scope, request))
        return {"Tags": {tag["Key"]: tag["Value"] for tag in tags}}

    def put_scaling_policy(self, scope: Scope, request: Fields) -> Fields:
        """Create or replace a policy, with its alarms."""
        target, name = self._target(scope, resource_of(request)), request["PolicyName"]
        before = target.policies.get(name)
        policy = read_policy(scope, target.resource, request, before)
        check_beside(policy, [other for other in target.policies.values() if other.name != name])
        former = [] if before is None else before.alarms
        try:
            self._alarms.put(scope, policy)
        except ServiceError:  # leave no alarm that the policy did not have
            self._alarms.delete(scope, [alarm for alarm in policy.alarms if alarm not in former])
            raise
        self._change(scope, target, lambda held: replace(held, policies={**held.policies, name: policy}))
        self._alarms.delete(scope, [alarm for alarm in former if alarm not in policy.alarms])
        return {field: policy.fields[field] for field in ("PolicyARN", "Alarms")}

    def describe_scaling_policies(self, scope: Scope, request: Fields) -> Fields:
        """Describe policies."""
        targets = self._store.targets.within(scope)
        policies = [policy for target in targets for policy in target.policies.values()]
        return described(policies, request, "ScalingPolicies")

    def delete_scaling_policy(self, scope: Scope, request: Fields) -> Fields:
        """Delete a policy and, for target tracking, its alarms."""
        resource, name = resource_of(request), request["PolicyName"]
        target = self._store.targets.get(scope, resource)
        if target is None or name not in target.policies:
            raise missing("scaling policy", resource, name)
        self._alarms.delete(scope, target.policies[name].alarms)
        self._change(scope, target, lambda held: replace(held, policies=_without(held.policies, name)))
        return {}

    def put_scheduled_action(self, scope: Scope, request: Fields) -> Fields:
        """Create an action, or change what the request names."""
        resource, name, now = resource_of(request), request["ScheduledActionName"], time.time()

        def put(held: TargetRecord) -> TargetRecord:
            action = read_action(scope, resource, request, held.schedules.get(name), now)
            return replace(held, schedules={**held.schedules, name: action})

        self._change(scope, self._target(scope, resource), put)
        return {}

    def describe_scheduled_actions(self, scope: Scope, request: Fields) -> Fields:
        """Describe scheduled actions."""
        targets = self._store.targets.within(scope)
        actions = [action for target in targets for action in target.schedules.values()]
        return described(actions, request, "ScheduledActions")

    def delete_scheduled_action(self, scope: Scope, request: Fields) -> Fields:
        """Delete a scheduled action."""
        resource, name = resource_of(request), request["ScheduledActionName"]
        target = self._store.targets.get(scope, resource)
        if target is None or name not in target.schedules:
            raise missing("scheduled action", resource, name)
        self._change(scope, target, lambda held: replace(held, schedules=_without(held.schedules, name)))
        return {}

    def describe_scaling_activities(self, scope: Scope, request: Fields) -> Fields:
        """Describe activities, newest first."""
        unscaled = request.get("IncludeNotScaledActivities", False)
        records = [
            entry
            for history in self._store.histories.within(scope)
            for entry in history.entries
            if unscaled or "NotScaledReasons" not in entry.fields
        ]
        records.sort(key=lambda entry: entry.started, reverse=True)
        return described(records, request, "ScalingActivities")

    def _target(self, scope: Scope, resource: str) -> TargetRecord:
        target = self._store.targets.get(scope, resource)
        if target is None:
            raise missing("scalable target", resource)
        return target

    def _change(
        self, scope: Scope, target: TargetRecord, step: Callable[[TargetRecord], TargetRecord]
    ) -> None:
        self._store.targets.change(scope, target.name, step)

    def _tagged(self, scope: Scope, request: Fields) -> str:
        arn = str(request["ResourceARN"])
        if arn not in {record.arn for record in self._store.targets.within(scope)}:
            raise ServiceError("ResourceNotFoundException", f"The specified resource doesn't exist: {arn}")
        return arn


def _new_target(scope: Scope, resource: str, request: Fields) -> TargetRecord:
    absent = [name for name in ("MinCapacity", "MaxCapacity") if name not in request]
    if absent:
        raise validation_exception(f"{' and '.join(absent)} must be specified to register a scalable target")
    service = "sagemaker.application-autoscaling.amazonaws.com"
    role = f"{service}/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    fields = {
        "ScalableTargetARN": scope.arn(SERVICE, f"scalable-target/{uuid.uuid4().hex}"),
        "RoleARN": f"arn:{scope.partition}:iam::{scope.account}:role/aws-service-role/{role}",
        "CreationTime": datetime.now(UTC),
        "SuspendedState": dict.fromkeys(_SUSPENSIONS, False),
    }
    return TargetRecord(resource=resource, fields=fields)


def _changed(before: TargetRecord, request: Fields) -> TargetRecord:
    changes = {name: request[name] for name in ("MinCapacity", "MaxCapacity", "RoleARN") if name in request}
    suspended = {**before.fields["SuspendedState"], **(request.get("SuspendedState") or {})}
    record = replace(before, fields={**before.fields, **changes, "SuspendedState": suspended}, due=0.0)
    minimum, maximum = record.limits
    if minimum < 0 or maximum < minimum:
        raise validation_exception(
            f"Minimum capacity {minimum} must be at least 0 and at most the maximum capacity {maximum}"
        )
    return record


def _without(items: Mapping[str, Item], name: str) -> dict[str, Item]:
    return {key: item for key, item in items.items() if key != name}


def _pairs(tags: Fields) -> list[Fields]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class AutoScalingApp:
    """Serves the API and scales endpoints. Thread-safe."""

    def __init__(self, *, clients: Clients, endpoints: Endpoints, time_scale: TimeScale) -> None:
        self._time_scale = time_scale
        self._store = AutoScalingTables()
        history = History(store=self._store)
        actions = ScalingActions(store=self._store, alarms=TrackingAlarms(clients=clients), history=history)
        self._scaler = Scaler(
            store=self._store,
            history=history,
            endpoints=endpoints,
            read_alarm=self._read_alarm,
            remove_target=actions.remove,
            time_scale=time_scale,
        )
        self._control_plane = ControlPlane(
            service=SERVICE,
            actions={name: getattr(actions, xform_name(name)) for name in OFFERED},
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        return self._control_plane(environ, start_response)

    @property
    def tables(self) -> Tables:
        """Its persistent tables; restored before `resume` after a restart."""
        return vars(self._store)

    def inventory(self) -> list[dict[str, str]]:
        """List the resources of all accounts and regions. Activities are not resources."""
        return [
            {
                "service": SERVICE,
                "type": kind,
                "id": name,
                "account": scope.account,
                "region": scope.region,
            }
            for scope, target in self._store.targets.everywhere()
            for kind, names in (
                ("scalable-target", (target.resource,)),
                ("scaling-policy", target.policies),
                ("scheduled-action", target.schedules),
            )
            for name in names
        ]

    def tagged(self, scope: Scope) -> Iterator[TaggedResource]:
        """List the targets of a scope with their tags."""
        for record in self._store.targets.within(scope):
            tags = {tag["Key"]: tag["Value"] for tag in self._store.tags.of(record.arn)}
            yield TaggedResource(record.arn, f"{SERVICE}:scalable-target", tags)

    def alarmed(self, alarm: AlarmRecord, action: str) -> str | None:
        """Note that an alarm triggers a policy; return why it does not."""
        return self._scaler.alarmed(alarm, action)

    def resume(self) -> None:
        """Begin to scale."""
        self._scaler.start()

    def close(self) -> None:
        """Stop scaling."""
        self._scaler.close()

    def _read_alarm(self, scope: Scope, name: str) -> AlarmReading | None:
        alarm = find_alarm(scope, name)
        if alarm is None:
            return None
        spec = alarm.spec
        windows = spec.observe(scope, spec.span(time.time(), self._time_scale))
        decision = decide_state(windows, spec.condition)
        evaluated = () if decision is None else decision.evaluated
        return AlarmReading(
            name=name,
            state=alarm.state,
            values=tuple(window.value for window in evaluated if window.value is not None),
            threshold=spec.condition.threshold,
            rises=spec.condition.comparison.startswith("Greater"),
        )
