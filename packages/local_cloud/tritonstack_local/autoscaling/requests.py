"""Read the common fields of requests, and page through answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tritonstack_local.autoscaling.errors import no_target, not_supported
from tritonstack_local.autoscaling.records import NAMESPACE, AutoScalingTables, TargetId, TargetRecord
from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import Fields

Item = TypeVar("Item")
_PAGE = 50
ONE_NAMESPACE = "only endpoints run here"


def check_namespace(request: Fields) -> None:
    """Reject namespaces of other services."""
    if request["ServiceNamespace"] != NAMESPACE:
        raise not_supported(f"ServiceNamespace {request['ServiceNamespace']}", ONE_NAMESPACE)


def target_id(request: Fields) -> TargetId:
    """Return the target that a request names."""
    check_namespace(request)
    return TargetId(request["ResourceId"], request["ScalableDimension"])


def registered(store: AutoScalingTables, scope: Scope, target: TargetId) -> TargetRecord:
    """Return a target, or raise AWS's error."""
    record = store.targets.get(scope, target.name)
    if record is None:
        raise no_target(target)
    return record


def key_fields(target: TargetId) -> dict[str, str]:
    """Return a target's identity in the API's format."""
    return {
        "ServiceNamespace": NAMESPACE,
        "ResourceId": target.resource,
        "ScalableDimension": target.dimension,
    }


def selected(request: Fields, target: TargetId) -> bool:
    """Return whether a request asks for this target."""
    resource = request.get("ResourceId", target.resource)
    dimension = request.get("ScalableDimension", target.dimension)
    return TargetId(resource, dimension) == target


def paged(
    items: list[Item], request: Fields, member: str, shown: Callable[[Item], Mapping[str, Any]]
) -> Fields:
    """Return one page of an answer; a token is the index of the next page."""
    token = request.get("NextToken") or "0"
    if not token.isdecimal():
        raise ServiceError("InvalidNextTokenException", "The next token supplied was invalid.")
    start, size = int(token), int(request.get("MaxResults") or _PAGE)
    end = start + size
    return {
        member: [shown(item) for item in items[start:end]],
        "NextToken": str(end) if end < len(items) else None,
    }
