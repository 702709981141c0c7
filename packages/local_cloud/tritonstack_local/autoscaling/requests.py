"""Read the common fields of requests, page through answers, and reject with AWS's codes and messages."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.facts.scaling_rules import (
    HIGH_ALARM,
    LOW_ALARM,
    PREDEFINED_METRICS,
    TREAT_MISSING_DATA,
    VARIANT_DIMENSION,
    PredefinedMetric,
    ScalingAlarmRule,
)
from tritonstack_local.autoscaling.records import (
    CONFIGURATIONS,
    NAMESPACE,
    STEPS,
    TRACKING,
    PolicyRecord,
    ScalingRecord,
    ScheduledRecord,
)
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.wire import Fields
from tritonstack_local.settings import REAL_MINUTE_S, TimeScale

_PAGE = 50
PREDICTION = "PutScalingPolicy.PredictiveScalingPolicyConfiguration"
OTHER_STEPS = "PutScalingPolicy.StepScalingPolicyConfiguration other than ChangeInCapacity"
OTHER_SCHEDULES = "PutScheduledAction.Schedule of another form"
START_AND_END = "PutScheduledAction.StartTime and EndTime"
OTHER_NAMESPACES = "RegisterScalableTarget.ServiceNamespace other than sagemaker"
OTHER_DIMENSIONS = "RegisterScalableTarget.ScalableDimension other than instance counts of variants"
REJECTED: Mapping[str, str] = {
    PREDICTION: "there is no forecast",
    OTHER_STEPS: "steps add and remove instances; none sets or multiplies their number",
    OTHER_SCHEDULES: "schedules are cron(minute hour ? * days *), with days such as MON,TUE or *",
    START_AND_END: "a scheduled action begins when it is put, and ends when it is deleted",
    OTHER_NAMESPACES: "only endpoints run here",
    OTHER_DIMENSIONS: "inference components run on AWS only",
}
"""What the API rejects, with the reasons."""
_VARIANT = re.compile(r"endpoint/[^/]+/variant/[^/]+")
# Field of a request, a value or a list of values -> field of the records it selects.
_SELECTS = {
    "ResourceId": "ResourceId",
    "ResourceIds": "ResourceId",
    "ScalableDimension": "ScalableDimension",
    "PolicyNames": "PolicyName",
    "ScheduledActionNames": "ScheduledActionName",
}


def check_namespace(request: Fields) -> None:
    """Reject namespaces of other services."""
    if request["ServiceNamespace"] != NAMESPACE:
        raise rejection(OTHER_NAMESPACES)


def resource_of(request: Fields) -> str:
    """Return the ResourceId that a request names."""
    check_namespace(request)
    resource = str(request["ResourceId"])
    if request["ScalableDimension"] != VARIANT_DIMENSION or _VARIANT.fullmatch(resource) is None:
        raise rejection(OTHER_DIMENSIONS)
    return resource


def described(records: Iterable[ScalingRecord], request: Fields, member: str) -> Fields:
    """Return one page of the records that a request selects; a token is the index of the next page."""
    check_namespace(request)
    selected = {
        own: request[name] if isinstance(request[name], list) else [request[name]]
        for name, own in _SELECTS.items()
        if request.get(name)
    }
    items = [
        shown
        for shown in (record.shown for record in records)
        if all(shown[name] in values for name, values in selected.items())
    ]
    token = request.get("NextToken") or "0"
    if not token.isdecimal():
        raise ServiceError("InvalidNextTokenException", "The next token supplied was invalid.")
    start, size = int(token), int(request.get("MaxResults") or _PAGE)
    end = start + size
    return {member: items[start:end], "NextToken": str(end) if end < len(items) else None}


def rejection(feature: str) -> ServiceError:
    """Return the error for an unsupported feature of Application Auto Scaling."""
    return validation_exception(f"The local cloud does not support {feature}: {REJECTED[feature]}.")


def missing(kind: str, resource: str, name: str = "") -> ServiceError:
    """Return the error for a target that is not registered, or has no policy or action of this name."""
    place = (
        f"service namespace: {NAMESPACE}, resource ID: {resource}, scalable dimension: {VARIANT_DIMENSION}"
    )
    named = f", {kind.removeprefix('scaling ')} name: {name}" if name else ""
    return ServiceError("ObjectNotFoundException", f"No {kind} found for {place}{named}")


_POLICIES_A_TARGET = 50


def read_policy(scope: Scope, resource: str, request: Fields, previous: PolicyRecord | None) -> PolicyRecord:
    """Return the policy that a request puts in the place of another one, if any."""
    kind = request.get("PolicyType", STEPS)
    if kind not in CONFIGURATIONS:
        raise rejection(PREDICTION)
    configuration = request.get(CONFIGURATIONS[kind])
    if configuration is None:
        raise validation_exception(f"{CONFIGURATIONS[kind]} must be specified for PolicyType {kind}")
    if kind == TRACKING:
        _check_tracking(configuration)
    else:
        _check_steps(configuration)
    high, low = None, None
    if kind == TRACKING:
        high, low = _new_alarm_names(resource, configuration)
        if previous is not None:
            # An updated policy keeps its alarms; without scale-in it has no low alarm.
            high = previous.high or high
            low = None if low is None else previous.low or low
    name, place = request["PolicyName"], f"resource/{NAMESPACE}/{resource}"
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
    return PolicyRecord(resource=resource, fields=fields, high=high, low=low)


def _new_alarm_names(resource: str, configuration: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the names of a policy's high and low alarm; without scale-in, there is no low alarm."""
    high, low = (f"TargetTracking-{resource}-{kind}-{uuid.uuid4()}" for kind in ("AlarmHigh", "AlarmLow"))
    return high, None if configuration.get("DisableScaleIn") else low


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


def _check_tracking(configuration: Mapping[str, Any]) -> None:
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
    if metric is None or metric.dimension != VARIANT_DIMENSION:
        raise validation_exception(
            f"Predefined metric type {predefined['PredefinedMetricType']} is not supported for the scalable "
            f"dimension {VARIANT_DIMENSION}"
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


# The calendar of a scheduled action starts when the action is put, and a minute in it lasts as long as a
# minute of the cloud: at the default scale, a day passes in 24 minutes.


_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY = rf"(?:{'|'.join(_DAYS)})"
_CRON = re.compile(
    r"cron\((?P<minute>[0-5]?\d) (?P<hour>[01]?\d|2[0-3]) "
    rf"(?:\* \* \?|\? \* (?P<days>\*|{_DAY}(?:,{_DAY})*)) \*\)"
)


def read_action(
    scope: Scope, resource: str, request: Fields, before: ScheduledRecord | None, now: float
) -> ScheduledRecord:
    """Return the action that a request puts in the place of another one, if any; its calendar starts now."""
    if request.keys() & {"StartTime", "EndTime"}:
        raise rejection(START_AND_END)
    name = request["ScheduledActionName"]
    place = f"scheduledAction:{NAMESPACE}/{resource}:scheduledActionName/{name}"
    new = {
        "ScheduledActionName": name,
        "ScheduledActionARN": scope.arn("autoscaling", place),
        "ScalableTargetAction": {},
        "CreationTime": datetime.now(UTC),
    }
    changes = ("Schedule", "Timezone", "ScalableTargetAction")
    fields = (new if before is None else dict(before.fields)) | {
        field: request[field] for field in changes if request.get(field)
    }
    if "Schedule" not in fields:
        raise validation_exception("Schedule must be specified to create a scheduled action")
    if _CRON.fullmatch(fields["Schedule"]) is None:
        raise rejection(OTHER_SCHEDULES)
    try:
        ZoneInfo(fields.get("Timezone", "UTC"))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise validation_exception(f"Timezone {fields['Timezone']!r} is not a known time zone") from error
    limits = fields["ScalableTargetAction"]
    if limits.get("MinCapacity", 0) > limits.get("MaxCapacity", float("inf")):
        raise validation_exception("Maximum capacity cannot be less than minimum capacity")
    return ScheduledRecord(resource=resource, fields=fields, since=now, done=now)


def due_time(record: ScheduledRecord, now: float, time_scale: TimeScale) -> float | None:
    """Return the last time in the action's calendar for which it has not run, if that has passed."""
    until = record.since + (now - record.since) * REAL_MINUTE_S / time_scale.minute_s
    return latest_time(record.fields, after=record.done, until=until)


def latest_time(fields: Mapping[str, Any], *, after: float, until: float) -> float | None:
    """Return the last time of a schedule within an interval, if there is one."""
    match, zone = _CRON.fullmatch(fields["Schedule"]), ZoneInfo(fields.get("Timezone", "UTC"))
    if match is None:
        return None
    days = _DAYS if match["days"] in (None, "*") else match["days"].split(",")
    moment = time(int(match["hour"]), int(match["minute"]))
    first, day = (datetime.fromtimestamp(at, zone).date() for at in (after, until))
    while day >= first:
        at = datetime.combine(day, moment, zone).timestamp()
        if _DAYS[day.weekday()] in days and after < at <= until:
            return at
        day -= timedelta(days=1)
    return None


DESCRIPTION = "DO NOT EDIT OR DELETE. For TargetTrackingScaling policy"
CREATED_BY = ":createdBy/"


def alarm_requests(policy: PolicyRecord) -> Iterator[dict[str, Any]]:
    """Yield the PutMetricAlarm requests of a target tracking policy."""
    metric = policy.configuration.get("PredefinedMetricSpecification")
    predefined = None if metric is None else PREDEFINED_METRICS[metric["PredefinedMetricType"]]
    rules = (
        (policy.high, HIGH_ALARM if predefined is None else predefined.high),
        (policy.low, LOW_ALARM if predefined is None else predefined.low),
    )
    for name, rule in rules:
        if name is not None:
            yield _request(policy, name, rule, predefined)


def _request(
    policy: PolicyRecord, name: str, rule: ScalingAlarmRule, predefined: PredefinedMetric | None
) -> dict[str, Any]:
    action = f"{policy.arn}{CREATED_BY}{name[-36:]}"
    metric = (
        _customized(policy.configuration["CustomizedMetricSpecification"], rule.period_s)
        if predefined is None
        else _of_variant(policy.resource, predefined, rule.period_s)
    )
    return {
        "AlarmName": name,
        "AlarmDescription": f"{DESCRIPTION} {action}.",
        "AlarmActions": [action],
        "ComparisonOperator": rule.comparison,
        "EvaluationPeriods": rule.datapoints,
        "Threshold": policy.configuration["TargetValue"] * rule.factor,
        "TreatMissingData": TREAT_MISSING_DATA,
        **metric,
    }


def _of_variant(resource: str, metric: PredefinedMetric, period_s: int) -> dict[str, Any]:
    _, endpoint, _, variant = resource.split("/")
    return {
        "Namespace": metric.namespace,
        "MetricName": metric.name,
        "Statistic": metric.statistic,
        "Dimensions": [
            {"Name": "EndpointName", "Value": endpoint},
            {"Name": "VariantName", "Value": variant},
        ],
        "Period": period_s,
    }


def _customized(metric: Mapping[str, Any], period_s: int) -> dict[str, Any]:
    if metric.get("Metrics"):
        return {"Metrics": [_query(item, period_s) for item in metric["Metrics"]]}
    return {**metric, "Period": period_s}


def _query(item: Mapping[str, Any], period_s: int) -> dict[str, Any]:
    if "MetricStat" not in item:
        return dict(item)
    return {**item, "MetricStat": {**item["MetricStat"], "Period": period_s}}


class TrackingAlarms:
    """Creates and deletes the alarms of policies."""

    def __init__(self, *, clients: Clients) -> None:
        self._clients = clients

    def put(self, scope: Scope, policy: PolicyRecord) -> None:
        """Create or update the alarms of a policy."""
        cloudwatch = self._clients.client("cloudwatch", scope)
        for request in alarm_requests(policy):
            try:
                cloudwatch.put_metric_alarm(**request)
            except (ClientError, BotoCoreError) as error:
                raise ServiceError(
                    "FailedResourceAccessException",
                    f"Unable to create alarms for scaling policy {policy.name}: {error}",
                ) from error

    def delete(self, scope: Scope, names: list[str]) -> None:
        """Delete alarms; missing ones are ignored."""
        cloudwatch = self._clients.client("cloudwatch", scope)
        if not names:
            return
        alarms = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
        if alarms:
            cloudwatch.delete_alarms(AlarmNames=[alarm["AlarmName"] for alarm in alarms])
