"""The Resource Groups Tagging API: GetResources of all services.

Read-only: services set tags themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.resource_tagging import TaggableResourcesMixin

from tritonstack_local.scope import Scope
from tritonstack_local.service.errors import ServiceError
from tritonstack_local.service.wire import ControlPlane, Fields


@dataclass(frozen=True, order=True)
class TaggedResource:
    """One resource; `type` is as in ResourceTypeFilters, `service:kind`."""

    arn: str
    type: str
    tags: Mapping[str, str]

    def described(self) -> dict[str, Any]:
        """Return it in the format of GetResources."""
        pairs = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        return {"ResourceARN": self.arn, "Tags": pairs}


ListTagged = Callable[[Scope], Iterator[TaggedResource]]
"""Lists a service's resources in a scope."""

_GLOBAL_REGION = "us-east-1"
"""The region in which AWS lists global resources."""
_TYPES = {"logs:loggroup": "logs:log-group", "ec2:flow-logs": "ec2:vpc-flow-log"}
"""moto type names that differ from AWS's."""


def tagged_in_moto(scope: Scope) -> Iterator[TaggedResource]:
    """List the resources of moto's services."""
    for service, backend in _backends(scope):
        if service in _OUR_OWN_WAY:
            yield from _OUR_OWN_WAY[service](backend, scope)
        if isinstance(backend, TaggableResourcesMixin) and service != "s3":
            yield from map(_as_aws_has_it, backend.iter_tagged_resources())


def _as_aws_has_it(found: Any) -> TaggedResource:
    kind = _TYPES.get(found.resource_type, found.resource_type)
    (_, _, given), (_, _, meant) = found.resource_type.partition(":"), kind.partition(":")
    return TaggedResource(found.arn.replace(f":{given}/", f":{meant}/"), kind, found.tags)


def _backends(scope: Scope) -> Iterator[tuple[str, Any]]:
    known: list[BackendDict[Any]] = BackendDict._instances  # type: ignore[misc]
    for services in list(known):
        for account, region, backend in list(services.iter_backends()):
            if account == scope.account and _is_told_in(services.service_name, region, scope):
                yield services.service_name, backend


def _is_told_in(service: str, region: str, scope: Scope) -> bool:
    """Return whether a backend is listed in a region; S3 and global services have no region."""
    if region == scope.partition:
        return service == "s3" or scope.region == _GLOBAL_REGION
    return region == scope.region


def _buckets(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    """List the buckets of a region; moto stores all in one backend."""
    for bucket in list(backend.buckets.values()):
        if bucket.region_name == scope.region:
            tags = backend.tagger.get_tag_dict_for_resource(bucket.arn)
            yield TaggedResource(bucket.arn, "s3:bucket", tags)


def _repositories(backend: Any, _: Scope) -> Iterator[TaggedResource]:
    for repository in list(backend.repositories.values()):
        tags = backend.tagger.get_tag_dict_for_resource(repository.arn)
        yield TaggedResource(repository.arn, "ecr:repository", tags)


def _endpoints_of_networks(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    for endpoint in list(backend.vpc_end_points.values()):
        arn = scope.arn("ec2", f"vpc-endpoint/{endpoint.id}")
        yield TaggedResource(arn, "ec2:vpc-endpoint", dict(backend.tags.get(endpoint.id, {})))


def _rules(backend: Any, _: Scope) -> Iterator[TaggedResource]:
    for bus in list(backend.event_buses.values()):
        for rule in list(bus.rules.values()):
            yield TaggedResource(rule.arn, "events:rule", backend.tagger.get_tag_dict_for_resource(rule.arn))


def _identities(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    """List the IAM resources that AWS lists; not roles and users."""
    held = [
        *(("iam:policy", policy) for policy in backend.managed_policies.values() if _is_own(policy, scope)),
        *(("iam:oidc-provider", provider) for provider in backend.open_id_providers.values()),
    ]
    for kind, model in held:
        yield TaggedResource(model.arn, kind, {tag["Key"]: tag["Value"] for tag in model.tags.values()})


def _is_own(policy: Any, scope: Scope) -> bool:
    return str(policy.arn).split(":")[4] == scope.account


_OUR_OWN_WAY: Mapping[str, Callable[[Any, Scope], Iterator[TaggedResource]]] = {
    "ec2": _endpoints_of_networks,
    "ecr": _repositories,
    "events": _rules,
    "iam": _identities,
    "s3": _buckets,
}
"""Resources by service that moto lists differently or not at all."""


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
