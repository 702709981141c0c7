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

SERVICE = "resourcegroupstaggingapi"
SIGNED_AS = "tagging"
"""The target prefix of requests."""
OFFERED = ("GetResources",)
_PAGE = 50
_NOT_SUPPORTED = ("ResourceARNList", "IncludeComplianceDetails", "ExcludeCompliantResources", "TagsPerPage")
_GLOBAL_REGION = "us-east-1"
"""The region in which AWS lists global resources."""
_TYPES = {"logs:loggroup": "logs:log-group", "ec2:flow-logs": "ec2:vpc-flow-log"}
"""moto type names that differ from AWS's."""


@dataclass(frozen=True)
class TaggedResource:
    """One resource; `type` is as in ResourceTypeFilters, `service:kind`."""

    arn: str
    type: str
    tags: Mapping[str, str]

    def matches(self, request: Fields) -> bool:
        """Return whether it has one of the types, and for each filter its key and one of its values."""
        types = request.get("ResourceTypeFilters") or []
        if types and not {self.type, self.type.split(":")[0]} & set(types):
            return False
        return all(
            item.get("Key", "") in self.tags
            and (not item.get("Values") or self.tags[item["Key"]] in item["Values"])
            for item in request.get("TagFilters") or []
        )

    def described(self) -> dict[str, Any]:
        """Return it in the format of GetResources."""
        pairs = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        return {"ResourceARN": self.arn, "Tags": pairs}


ListTagged = Callable[[Scope], Iterator[TaggedResource]]
"""Lists a service's resources in a scope."""


def create_app(*, sources: Sequence[ListTagged]) -> ControlPlane:
    """Create the application; each source lists the resources of a service."""
    return ControlPlane(service=SERVICE, actions={"GetResources": partial(_get_resources, sources)})


def _get_resources(sources: Sequence[ListTagged], scope: Scope, request: Fields) -> Fields:
    for name in _NOT_SUPPORTED:
        if request.get(name):
            message = f"The local cloud does not support {name} in GetResources."
            raise ServiceError("InvalidParameterException", message)
    after, size = request.get("PaginationToken", ""), request.get("ResourcesPerPage", _PAGE)
    resources = {resource.arn: resource for source in sources for resource in source(scope) if resource.tags}
    matching = [
        resource for arn, resource in sorted(resources.items()) if arn > after and resource.matches(request)
    ]
    return {
        "PaginationToken": matching[size - 1].arn if len(matching) > size else "",
        "ResourceTagMappingList": [resource.described() for resource in matching[:size]],
    }


def tagged_in_moto(scope: Scope) -> Iterator[TaggedResource]:
    """List the resources of moto's services."""
    known: list[BackendDict[Any]] = BackendDict._instances  # type: ignore[misc]
    for services in list(known):
        service = services.service_name
        for account, region, backend in list(services.iter_backends()):
            # S3 and global services have no region.
            is_global = region == scope.partition and (service == "s3" or scope.region == _GLOBAL_REGION)
            if account != scope.account or not (is_global or region == scope.region):
                continue
            if service in _OUR_OWN_WAY:
                yield from _OUR_OWN_WAY[service](backend, scope)
            if isinstance(backend, TaggableResourcesMixin) and service != "s3":
                yield from map(_as_aws_has_it, backend.iter_tagged_resources())


def _as_aws_has_it(found: Any) -> TaggedResource:
    kind = _TYPES.get(found.resource_type, found.resource_type)
    (_, _, given), (_, _, meant) = found.resource_type.partition(":"), kind.partition(":")
    return TaggedResource(found.arn.replace(f":{given}/", f":{meant}/"), kind, found.tags)


def _buckets(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    """List the buckets of a region; moto stores all in one backend."""
    for bucket in list(backend.buckets.values()):
        if bucket.region_name == scope.region:
            yield _by_tagger(backend, bucket, "s3:bucket")


def _repositories(backend: Any, _: Scope) -> Iterator[TaggedResource]:
    for repository in list(backend.repositories.values()):
        yield _by_tagger(backend, repository, "ecr:repository")


def _rules(backend: Any, _: Scope) -> Iterator[TaggedResource]:
    for bus in list(backend.event_buses.values()):
        for rule in list(bus.rules.values()):
            yield _by_tagger(backend, rule, "events:rule")


def _by_tagger(backend: Any, model: Any, kind: str) -> TaggedResource:
    return TaggedResource(model.arn, kind, backend.tagger.get_tag_dict_for_resource(model.arn))


def _endpoints_of_networks(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    for endpoint in list(backend.vpc_end_points.values()):
        arn = scope.arn("ec2", f"vpc-endpoint/{endpoint.id}")
        yield TaggedResource(arn, "ec2:vpc-endpoint", dict(backend.tags.get(endpoint.id, {})))


def _identities(backend: Any, scope: Scope) -> Iterator[TaggedResource]:
    """List the IAM resources that AWS lists: own policies and providers; not roles and users."""
    own = [it for it in backend.managed_policies.values() if it.arn.split(":")[4] == scope.account]
    for kind, models in (("iam:policy", own), ("iam:oidc-provider", backend.open_id_providers.values())):
        for model in models:
            yield TaggedResource(model.arn, kind, {tag["Key"]: tag["Value"] for tag in model.tags.values()})


_OUR_OWN_WAY: Mapping[str, Callable[[Any, Scope], Iterator[TaggedResource]]] = {
    "ec2": _endpoints_of_networks,
    "ecr": _repositories,
    "events": _rules,
    "iam": _identities,
    "s3": _buckets,
}
"""Resources by service that moto lists differently or not at all."""
