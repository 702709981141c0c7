"""The protocol of a resource provider."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from tritonstack_local.cloudformation.names import generated_name
from tritonstack_local.cloudformation.templates.evaluation import StackIdentity
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api, unknown_members
from tritonstack_local.identity.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.faults import sentence

Members = Mapping[str, "Members | None"]

NOT_ENFORCED = "It is stored and returned; only bucket policies are enforced."


class ProviderError(Exception):
    """A resource could not be brought to what the template says; the message becomes its status reason."""


class UnchangeableError(ProviderError):
    """A change was refused before anything was done: there is nothing to be undone."""


@dataclass(frozen=True)
class Property:
    """What is known about one property of a type.

    `shape` names the botocore shape its value follows (see shapes.py), `members` spells its structure out
    where CloudFormation's differs from the API's. Without either the value is passed on as it is.

    `why` is a sentence for people: why nothing comes of the property, which must be said where `effect` is
    False, or how far its effect goes. `inner` says the same of members, by their paths below the property.
    """

    shape: str | None = None
    members: Members | None = None
    create_only: bool = False
    effect: bool = True
    required: bool = False
    why: str = ""
    inner: Mapping[str, str] = field(default_factory=dict)

    def problems(self, value: Any, path: str) -> Iterator[str]:
        """Yield the path of every member of `value` that this property does not have."""
        if self.shape is not None:
            yield from unknown_members(value, shape_named(self.shape), path)
        elif self.members is not None:
            yield from _unknown(value, self.members, path)


def api_property(shape: str, *, required: bool, reason: str | None) -> Property:
    """Return a property that is a field of the service's API; `reason` says why it has no effect here."""
    return Property(
        shape=shape, required=required, effect=reason is None, why=sentence(reason) if reason else ""
    )


def _unknown(value: Any, members: Members, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, members, path)
    elif isinstance(value, Mapping):
        for key, member in value.items():
            if key not in members:
                yield f"{path}.{key}"
            else:
                inner = members[key]
                if inner is not None:
                    yield from _unknown(member, inner, f"{path}.{key}")


@dataclass(frozen=True)
class ResourceRequest:
    """One resource to be made, changed or removed, with everything resolved."""

    logical_id: str
    properties: Mapping[str, Any]
    stack: StackIdentity
    clients: Clients
    specification: Mapping[str, Property]
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    token: str | None = None
    """What makes the names of this attempt its own, so that it makes up the same ones when it is repeated."""

    def client(self, service: str) -> Any:
        """Return a boto3 client of this resource's account and region."""
        return self.clients.client(service, Scope(self.stack.account, self.stack.region))

    def api(self, *names: str) -> dict[str, Any]:
        """Return the named properties that are set (all of them when none is named) as the API takes them."""
        wanted = names or tuple(self.specification)
        return {name: self.value(name) for name in wanted if name in self.properties}

    def value(self, name: str) -> Any:
        """Return one property as the API takes it, None when it is not set."""
        shape = self.specification[name].shape
        value = self.properties.get(name)
        return value if shape is None or value is None else to_api(value, shape_named(shape))

    def flag(self, name: str) -> bool:
        """Return a boolean property, however it was spelled; false when it is not set."""
        return str(self.properties.get(name, False)).lower() == "true"

    def pause(self, seconds: float) -> None:
        """Wait a little between two looks at a resource that takes its time."""
        time.sleep(seconds)

    def name(self, prop: str, *, max_length: int, lower: bool = False) -> str:
        """Return the name that the template gives in `prop`, or one as CloudFormation makes it up."""
        given = self.properties.get(prop)
        if given is not None:
            return str(given)
        return generated_name(
            self.stack.name, self.logical_id, max_length=max_length, token=self.token, lower=lower
        )


class Provider(ABC):
    """Makes, changes and removes resources of one CloudFormation type.

    `create` makes the resource and returns its physical id at once, so that a failure later can still be
    rolled back. `settle` then brings every setting to what the template says and waits until it holds; it
    follows each update too. `delete` treats a resource that is gone already as deleted.
    """

    type_name: ClassVar[str]
    properties: ClassVar[Mapping[str, Property]]
    name_property: ClassVar[str | None] = None
    """The property by which the template names the resource: two of one name cannot exist side by side."""
    attribute_names: ClassVar[frozenset[str]] = frozenset()
    """What `Fn::GetAtt` answers."""
    kept_only: ClassVar[str] = ""
    """Why resources of this type do nothing, if they are only stored and returned."""
    volatile_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes that an update in place may change."""
    maps_tags: ClassVar[bool] = False
    """Whether `Tags` is a map of keys to values; with most types it is a list of pairs."""

    def find(self, request: ResourceRequest) -> str | None:
        """Return the physical id of a resource that exists under the template's name for it."""
        return None

    @abstractmethod
    def create(self, request: ResourceRequest) -> str:
        """Create the resource and return its physical id."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:  # noqa: B027 - optional
        """Bring every setting to what the template says, and wait for it."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:  # noqa: B027
        """Change what `settle` does not: take back settings that the template no longer has."""

    @abstractmethod
    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the resource and wait until it is gone."""

    def attributes(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the value of every attribute in `attribute_names`."""
        return {}

    def reference(self, physical_id: str) -> str:
        """Return what `Ref` answers."""
        return physical_id

    def tagged(self, properties: Mapping[str, Any], stack_tags: Mapping[str, str]) -> Mapping[str, Any]:
        """Add the stack's tags to a resource's own, which win; a type without tags gets none."""
        if not stack_tags or "Tags" not in self.properties:
            return properties
        if self.maps_tags:
            return {**properties, "Tags": {**stack_tags, **properties.get("Tags", {})}}
        own = properties.get("Tags", [])
        keys = {tag["Key"] for tag in own}
        more = [{"Key": key, "Value": value} for key, value in stack_tags.items() if key not in keys]
        return {**properties, "Tags": [*own, *more]}

    def problems(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a resource's properties before anything is made."""
        for name, value in properties.items():
            known = self.properties.get(name)
            paths = [name] if known is None else known.problems(value, name)
            yield from (
                f"{logical_id}: property {path} of {self.type_name} is unknown to the embedded cloud"
                for path in paths
            )
        for name, declared in self.properties.items():
            if declared.required and name not in properties:
                yield f"{logical_id}: {self.type_name} needs property {name}"


def refuse_change(request: ResourceRequest, previous: ResourceRequest, *names: str) -> None:
    """Fail an update of properties that CloudFormation neither changes in place nor by replacement."""
    changed = [name for name in names if request.properties.get(name) != previous.properties.get(name)]
    if changed:
        raise UnchangeableError(f"{', '.join(changed)} cannot be changed once the resource exists")


def removed(request: ResourceRequest, previous: ResourceRequest, name: str) -> bool:
    """Return whether an update takes a property away."""
    return name in previous.properties and name not in request.properties


class ignoring:  # noqa: N801 - reads as the statement it is
    """Context in which answers with one of these error codes count as success: what was to go is gone."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, ClientError) and error.response["Error"]["Code"] in self._codes
