"""Read and check scaling policies, without I/O."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from tritonstack.facts.scaling_rules import PREDEFINED_METRICS
from tritonstack_local.autoscaling.records import NAMESPACE, PolicyRecord, TargetId
from tritonstack_local.autoscaling.requests import OTHER_STEPS, PREDICTION, rejection
from tritonstack_local.autoscaling.tracking_alarms import new_alarm_names
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.wire import Fields

TRACKING, STEPS = "TargetTrackingScaling", "StepScaling"
CONFIGURATIONS: Mapping[str, str] = {
    STEPS: "StepScalingPolicyConfiguration",
    TRACKING: "TargetTrackingScalingPolicyConfiguration",
}
_POLICIES_A_TARGET = 50


def read_policy(
    scope: Scope, target: TargetId, request: Fields, previous: PolicyRecord | None
) -> PolicyRecord:
    """Return the policy that a request puts in the place of another one, if any."""
    kind = request.get("PolicyType", STEPS)
    if kind not in CONFIGURATIONS:
        raise rejection(PREDICTION)
    configuration = request.get(CONFIGURATIONS[kind])
    if configuration is None:
        raise validation_exception(f"{CONFIGURATIONS[kind]} must be specified for PolicyType {kind}")
    if kind == TRACKING:
        _check_tracking(target, configuration)
    else:
        _check_steps(configuration)
    high, low = None, None
    if kind == TRACKING:
        high, low = new_alarm_names(target, configuration)
        if previous is not None:
            # An updated policy keeps its alarms; without scale-in it has no low alarm.
            high = previous.high or high
            low = None if low is None else previous.low or low
    name, place = request["PolicyName"], f"resource/{NAMESPACE}/{target.resource}"
    identity = {
        "PolicyARN": scope.arn("autoscaling", f"scalingPolicy:{uuid.uuid4()}:{place}:policyName/{name}"),
        "CreationTime": datetime.now(UTC),
    }
    if previous is not None:
        identity = {field: previous.fields[field] for field in identity}
    fields = {
        **identity,
        "PolicyName": name,
        "PolicyType": kind,
        CONFIGURATIONS[kind]: configuration,
        "Alarms": [
            {"AlarmName": alarm, "AlarmARN": scope.arn("cloudwatch", f"alarm:{alarm}")}
            for alarm in (high, low)
            if alarm is not None
        ],
    }
    return PolicyRecord(target=target, fields=fields, configuration=configuration, high=high, low=low)


def check_beside(policy: PolicyRecord, others: list[PolicyRecord]) -> None:
    """Reject a policy that its target cannot have beside the others."""
    if len(others) >= _POLICIES_A_TARGET:
        raise ServiceError("LimitExceededException", f"A target has at most {_POLICIES_A_TARGET} policies")
    if policy.kind == TRACKING and any(
        other.kind == TRACKING and _metric(other) == _metric(policy) for other in others
    ):
        raise validation_exception(
            "Only one TargetTrackingScaling policy for a given metric specification is allowed."
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


def _check_steps(configuration: Mapping[str, Any]) -> None:
    if configuration.get("AdjustmentType") != "ChangeInCapacity":
        raise rejection(OTHER_STEPS)
    if not configuration.get("StepAdjustments"):
        raise validation_exception("StepAdjustments must be specified for a step scaling policy")
    infinity = float("inf")
    bounds = sorted(
        (step.get("MetricIntervalLowerBound", -infinity), step.get("MetricIntervalUpperBound", infinity))
        for step in configuration["StepAdjustments"]
    )
    if any(low >= high for low, high in bounds):
        raise validation_exception(
            "The upper bound of a step adjustment must be greater than its lower bound"
        )
    if any(before[1] > after[0] for before, after in pairwise(bounds)):
        raise validation_exception("StepAdjustment intervals can't overlap")


def _metric(policy: PolicyRecord) -> tuple[Any, Any]:
    fields = policy.configuration
    return fields.get("PredefinedMetricSpecification"), fields.get("CustomizedMetricSpecification")
