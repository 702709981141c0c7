"""The WSGI application of the Resource Groups Tagging API.

Read-only: services set tags themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import ControlPlane, Fields
from tritonstack_local.tagging.resources import ListTagged, TaggedResource

Item = TypeVar("Item")
SERVICE = "resourcegroupstaggingapi"
SIGNED_AS = "tagging"
"""The target prefix of requests."""
_PAGE = 50


def create_app(*, region: str, sources: Sequence[ListTagged]) -> ControlPlane:
    """Create the application; each source lists the resources of a service."""
    actions = {name: partial(action, sources) for name, action in _ACTIONS.items()}
    return ControlPlane(service=SERVICE, region=region, actions=actions)


def _get_resources(sources: Sequence[ListTagged], scope: Scope, request: Fields) -> Fields:
    arns = request.get("ResourceARNList", [])
    if arns and any(request.get(name) for name in ("TagFilters", "ResourceTypeFilters", "PaginationToken")):
        raise _invalid("ResourceARNList cannot be given together with filters or a token.")
    found = [
        resource
        for resource in _tagged(sources, scope)
        if (not arns or resource.arn in arns)
        and _is_of_type(resource, request.get("ResourceTypeFilters", []))
        and all(_passes(resource.tags, tag_filter) for tag_filter in request.get("TagFilters", []))
    ]
    page, token = _page(found, request, lambda resource: resource.arn, request.get("ResourcesPerPage", _PAGE))
    return {"PaginationToken": token, "ResourceTagMappingList": [resource.described() for resource in page]}


def _get_tag_keys(sources: Sequence[ListTagged], scope: Scope, request: Fields) -> Fields:
    keys = sorted({key for resource in _tagged(sources, scope) for key in resource.tags})
    page, token = _page(keys, request, str, _PAGE)
    return {"PaginationToken": token, "TagKeys": page}


def _get_tag_values(sources: Sequence[ListTagged], scope: Scope, request: Fields) -> Fields:
    tags = [resource.tags for resource in _tagged(sources, scope)]
    values = sorted({given[request["Key"]] for given in tags if request["Key"] in given})
    page, token = _page(values, request, str, _PAGE)
    return {"PaginationToken": token, "TagValues": page}


_ACTIONS: Mapping[str, Callable[[Sequence[ListTagged], Scope, Fields], Fields]] = {
    "GetResources": _get_resources,
    "GetTagKeys": _get_tag_keys,
    "GetTagValues": _get_tag_values,
}
OFFERED = tuple(_ACTIONS)


def _tagged(sources: Iterable[ListTagged], scope: Scope) -> Iterator[TaggedResource]:
    found = {resource.arn: resource for source in sources for resource in source(scope) if resource.tags}
    return (found[arn] for arn in sorted(found))


def _passes(tags: Mapping[str, str], tag_filter: Fields) -> bool:
    """Return whether tags match a filter: its key, and one of its values if any."""
    key, values = tag_filter.get("Key", ""), tag_filter.get("Values") or []
    return key in tags and (not values or tags[key] in values)


def _is_of_type(resource: TaggedResource, filters: Sequence[str]) -> bool:
    return not filters or any(name in {resource.type, resource.type.split(":")[0]} for name in filters)


def _page(
    items: Sequence[Item], request: Fields, key: Callable[[Item], str], size: int
) -> tuple[list[Item], str]:
    """Return the items after the token, and the next token; empty at the end."""
    after = request.get("PaginationToken", "")
    left = [item for item in items if key(item) > after]
    return left[:size], key(left[size - 1]) if len(left) > size else ""


def _invalid(message: str) -> ServiceError:
    return ServiceError("InvalidParameterException", message)
