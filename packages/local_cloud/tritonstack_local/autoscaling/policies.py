"""The actions on scaling policies."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tritonstack.reference.scaling_rules import PREDEFINED_METRICS
from tritonstack_local.autoscaling.errors import no_policy, not_supported
from tritonstack_local.autoscaling.records import (
    NAMESPACE,
    AutoScalingTables,
    PolicyRecord,
    TargetId,
    TargetRecord,
)
from tritonstack_local.autoscaling.requests import (
    check_namespace,
    key_fields,
    paged,
    registered,
    selected,
    target_id,
)
from tritonstack_local.autoscaling.tracking_alarms import TrackingAlarms, new_alarm_names
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.wire import Fields

TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
CONFIGURATIONS: Mapping[str, str] = {
    STEPS: "StepScalingPolicyConfiguration",
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
}
NO_PREDICTION = "there is no forecast"
_POLICIES_A_TARGET = 50


class Policies:
    """Puts, describes, and deletes policies."""

    def __init__(self, *, store: AutoScalingTables, alarms: TrackingAlarms) -> None:
        self._store = store
        self._alarms = alarms

    def put(self, scope: Scope, request: Fields) -> Fields:
        """Create or replace a policy, with its alarms."""
        target = target_id(request)
        record = registered(self._store, scope, target)
        before = self._store.policies.get(scope, f"{target.name}|{request['PolicyName']}")
        policy = _policy(scope, record, request, before)
        self._check(scope, policy)
        self._put_alarms(scope, policy, known=[] if before is None else before.alarms)
        if before is None:
            self._store.policies.add(scope, policy)
        else:
            self._store.policies.change(scope, policy.name, lambda _: policy)
            self._alarms.delete(scope, [name for name in before.alarms if name not in policy.alarms])
        return {"PolicyARN": policy.arn, "Alarms": _alarms(scope, policy)}

    def describe(self, scope: Scope, request: Fields) -> Fields:
        """Describe policies."""
        check_namespace(request)
        names = request.get("PolicyNames") or None
        policies = [
            policy
            for policy in self._store.policies.within(scope)
            if selected(request, policy.target) and (names is None or policy.policy in names)
        ]
        return paged(policies, request, "ScalingPolicies", lambda policy: _shown(scope, policy))

    def delete(self, scope: Scope, request: Fields) -> Fields:
        """Delete a policy and, for target tracking, its alarms."""
        target, name = target_id(request), request["PolicyName"]
        policy = self._store.policies.get(scope, f"{target.name}|{name}")
        if policy is None:
            raise no_policy(target, name)
        self._alarms.delete(scope, policy.alarms)
        self._store.policies.remove(scope, policy.name)
        return {}

    def _put_alarms(self, scope: Scope, policy: PolicyRecord, *, known: list[str]) -> None:
        """Put the alarms of target tracking; if one is rejected, leave none that the policy did not have."""
        try:
            self._alarms.put(scope, policy)
        except ServiceError:
            self._alarms.delete(scope, [name for name in policy.alarms if name not in known])
            raise

    def _check(self, scope: Scope, policy: PolicyRecord) -> None:
        others = [
            other
            for other in self._store.policies.within(scope)
            if other.target == policy.target and other.name != policy.name
        ]
        if len(others) >= _POLICIES_A_TARGET:
            raise ServiceError(
                "LimitExceededException", f"A target has at most {_POLICIES_A_TARGET} policies"
            )
        if policy.kind == TRACKING and any(
            other.kind == TRACKING and _metric(other) == _metric(policy) for other in others
        ):
            raise validation_exception(
                "Only one TargetTrackingScaling policy for a given metric specification is allowed."
            )


def _policy(scope: Scope, record: TargetRecord, request: Fields, before: PolicyRecord | None) -> PolicyRecord:
    kind = request.get("PolicyType") or (before.kind if before else STEPS)
    if kind not in CONFIGURATIONS:
        raise not_supported(f"PolicyType {kind}", NO_PREDICTION)
    configuration = request.get(CONFIGURATIONS[kind])
    if configuration is None and before is not None and before.kind == kind:
        configuration = before.configuration
    if configuration is None:
        raise validation_exception(f"{CONFIGURATIONS[kind]} must be specified for PolicyType {kind}")
    (_check_tracking if kind == TRACKING else _check_steps)(record.id, configuration)
    name, arn = (
        request["PolicyName"],
        f"scalingPolicy:{uuid.uuid4()}:resource/{NAMESPACE}/{record.id.resource}",
    )
    fresh = PolicyRecord(
        target=record.id,
        policy=name,
        arn=scope.arn("autoscaling", f"{arn}:policyName/{name}"),
        kind=kind,
        configuration=configuration,
        created=datetime.now(UTC),
    )
    if kind == TRACKING and record.id.variant is not None:
        high, low = new_alarm_names(record.id, configuration)
        fresh = replace(fresh, high=high, low=low)
    if before is None:
        return fresh
    return replace(
        fresh,
        arn=before.arn,
        created=before.created,
        high=fresh.high and (before.high or fresh.high),
        low=fresh.low and (before.low or fresh.low),
    )


def _check_tracking(target: TargetId, configuration: Mapping[str, Any]) -> None:
    predefined, customized = (
        configuration.get(name) for name in ("PredefinedMetricSpecification", "CustomizedMetricSpecification")
    )
    if (predefined is None) == (customized is None):
        raise validation_exception(
            "Exactly one of PredefinedMetricSpecification and CustomizedMetricSpecification must be specified"
        )
    if not configuration["TargetValue"] > 0:
        raise validation_exception("TargetValue must be greater than 0")
    if predefined is None:
        return
    metric = PREDEFINED_METRICS.get(predefined["PredefinedMetricType"])
    if metric is None or metric.dimension != target.dimension:
        raise validation_exception(
            f"Predefined metric type {predefined['PredefinedMetricType']} is not supported for the scalable "
            f"dimension {target.dimension}"
        )


def _check_steps(_: TargetId, configuration: Mapping[str, Any]) -> None:
    missing = [name for name in ("AdjustmentType", "StepAdjustments") if not configuration.get(name)]
    if missing:
        raise validation_exception(f"{' and '.join(missing)} must be specified for a step scaling policy")
    bounds = [_bounds(step) for step in configuration["StepAdjustments"]]
    if any(low >= high for low, high in bounds):
        raise validation_exception(
            "The upper bound of a step adjustment must be greater than its lower bound"
        )
    ordered = sorted(bounds)
    if any(before[1] > after[0] for before, after in pairwise(ordered)):
        raise validation_exception("StepAdjustment intervals can't overlap")


def _bounds(step: Mapping[str, Any]) -> tuple[float, float]:
    infinity = float("inf")
    return (
        step.get("MetricIntervalLowerBound", -infinity),
        step.get("MetricIntervalUpperBound", infinity),
    )


def _metric(policy: PolicyRecord) -> tuple[Any, Any]:
    fields = policy.configuration
    return fields.get("PredefinedMetricSpecification"), fields.get("CustomizedMetricSpecification")


def _shown(scope: Scope, policy: PolicyRecord) -> Mapping[str, Any]:
    return {
        **key_fields(policy.target),
        "PolicyARN": policy.arn,
        "PolicyName": policy.policy,
        "PolicyType": policy.kind,
        CONFIGURATIONS[policy.kind]: policy.configuration,
        "Alarms": _alarms(scope, policy),
        "CreationTime": policy.created,
    }


def _alarms(scope: Scope, policy: PolicyRecord) -> list[dict[str, str]]:
    return [
        {"AlarmName": name, "AlarmARN": scope.arn("cloudwatch", f"alarm:{name}")} for name in policy.alarms
    ]
