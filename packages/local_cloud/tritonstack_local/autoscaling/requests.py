"""Read the common fields of requests, page through answers, and reject with AWS's codes and messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tritonstack.facts.scaling_rules import VARIANT_DIMENSION
from tritonstack_local.autoscaling.records import NAMESPACE, ScalingRecord, TargetId
from tritonstack_local.service.errors import ServiceError, validation_exception
from tritonstack_local.service.wire import Fields

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


def target_id(request: Fields) -> TargetId:
    """Return the target that a request names."""
    check_namespace(request)
    resource, dimension = request["ResourceId"], request["ScalableDimension"]
    if dimension != VARIANT_DIMENSION or _VARIANT.fullmatch(resource) is None:
        raise rejection(OTHER_DIMENSIONS)
    return TargetId(resource, dimension)


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


def missing(kind: str, target: TargetId, name: str = "") -> ServiceError:
    """Return the error for a target that is not registered, or has no policy or action of this name."""
    place = (
        f"service namespace: {NAMESPACE}, resource ID: {target.resource}, "
        f"scalable dimension: {target.dimension}"
    )
    named = f", {kind.removeprefix('scaling ')} name: {name}" if name else ""
    return ServiceError("ObjectNotFoundException", f"No {kind} found for {place}{named}")
