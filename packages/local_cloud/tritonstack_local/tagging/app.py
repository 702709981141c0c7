"""The WSGI application of the Resource Groups Tagging API: GetResources.

Read-only: services set tags themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import ControlPlane, Fields
from tritonstack_local.tagging.resources import ListTagged, TaggedResource

SERVICE = "resourcegroupstaggingapi"
SIGNED_AS = "tagging"
"""The target prefix of requests."""
OFFERED = ("GetResources",)
_PAGE = 50
_NOT_SUPPORTED = ("ResourceARNList", "IncludeComplianceDetails", "ExcludeCompliantResources", "TagsPerPage")


def create_app(*, sources: Sequence[ListTagged]) -> ControlPlane:
    """Create the application; each source lists the resources of a service."""
    actions = {"GetResources": partial(_get_resources, sources)}
    return ControlPlane(service=SERVICE, actions=actions)


def _get_resources(sources: Sequence[ListTagged], scope: Scope, request: Fields) -> Fields:
    for name in _NOT_SUPPORTED:
        if request.get(name):
            raise ServiceError(
                "InvalidParameterException", f"The local cloud does not support {name} in GetResources."
            )
    after, size = request.get("PaginationToken", ""), request.get("ResourcesPerPage", _PAGE)
    resources = {resource.arn: resource for source in sources for resource in source(scope) if resource.tags}
    matching = [
        resource
        for arn, resource in sorted(resources.items())
        if arn > after
        and _is_of_type(resource, request.get("ResourceTypeFilters", []))
        and all(_passes(resource.tags, tag_filter) for tag_filter in request.get("TagFilters", []))
    ]
    return {
        "PaginationToken": matching[size - 1].arn if len(matching) > size else "",
        "ResourceTagMappingList": [resource.described() for resource in matching[:size]],
    }


def _passes(tags: Mapping[str, str], tag_filter: Fields) -> bool:
    """Return whether tags match a filter: its key, and one of its values if any."""
    key, values = tag_filter.get("Key", ""), tag_filter.get("Values") or []
    return key in tags and (not values or tags[key] in values)


def _is_of_type(resource: TaggedResource, filters: Sequence[str]) -> bool:
    return not filters or any(name in {resource.type, resource.type.split(":")[0]} for name in filters)
