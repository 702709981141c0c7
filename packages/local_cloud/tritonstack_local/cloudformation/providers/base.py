"""The protocol of a resource provider, and the names it generates."""

from __future__ import annotations

import re
import secrets
import string
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.cloudformation.templates.evaluation import StackIdentity
from tritonstack_local.cloudformation.templates.shapes import shape_named, to_api, unknown_members
from tritonstack_local.scope import Scope
from tritonstack_local.service.clients import Clients
from tritonstack_local.service.errors import sentence


def generated_name(stack: str, logical_id: str, *, max_length: int, lower: bool = False) -> str:
    """Return `<stack>-<logical id>-<twelve random letters and digits>`, cut to the maximum length."""
    suffix = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))
    room = max_length - len(suffix) - 2
    stack_part = stack[: max(room - len(logical_id), room // 2)]
    name = f"{stack_part}-{logical_id[: room - len(stack_part)]}-{suffix}"
    name = re.sub(r"[^A-Za-z0-9-]", "", name)
    return name.lower() if lower else name


Members = Mapping[str, "Members | None"]

NOT_ENFORCED = "It is stored and returned; no policy is enforced."


class ProviderError(Exception):
    """A resource operation failed; the message becomes the status reason."""


class UnchangeableError(ProviderError):
    """A change was rejected before it started: there is nothing to undo."""


@dataclass(frozen=True)
class Property:
    """One property of a resource type.

    `shape` is the botocore shape of its value (see shapes.py); `members` lists the members if
    CloudFormation's structure differs from the API's. Without either, the value is passed on unchanged.

    `reason` is a sentence on the limits of its effect, required if `effect` is False. `inner` holds such
    sentences of members, by their path below the property.
    """

    shape: str | None = None
    members: Members | None = None
    create_only: bool = False
    effect: bool = True
    required: bool = False
    reason: str = ""
    inner: Mapping[str, str] = field(default_factory=dict)

    def violations(self, value: Any, path: str) -> Iterator[str]:
        """Yield the path of every unknown member of `value`."""
        if self.shape is not None:
            yield from unknown_members(value, shape_named(self.shape), path)
        elif self.members is not None:
            yield from _unknown(value, self.members, path)


def api_property(shape: str, *, required: bool, reason: str | None) -> Property:
    """Return a property that is a field of the service's API; `reason` says why it has no effect here."""
    return Property(
        shape=shape, required=required, effect=reason is None, reason=sentence(reason) if reason else ""
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
    """A resource to create, change, or delete, with resolved properties."""

    logical_id: str
    properties: Mapping[str, Any]
    stack: StackIdentity
    clients: Clients
    specification: Mapping[str, Property]
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    def client(self, service: str) -> Any:
        """Return a boto3 client of this resource's account and region."""
        return self.clients.client(service, Scope(self.stack.account, self.stack.region))

    def api(self, *names: str) -> dict[str, Any]:
        """Return the given properties (default: all) that are set, in the API's format."""
        wanted = names or tuple(self.specification)
        return {name: self.value(name) for name in wanted if name in self.properties}

    def value(self, name: str) -> Any:
        """Return one property in the API's format; None if it is not set."""
        shape = self.specification[name].shape
        value = self.properties.get(name)
        return value if shape is None or value is None else to_api(value, shape_named(shape))

    def flag(self, name: str) -> bool:
        """Return a boolean property, in any spelling; False if it is not set."""
        return str(self.properties.get(name, False)).lower() == "true"

    def pause(self, seconds: float) -> None:
        """Wait between polls of a resource."""
        time.sleep(seconds)

    def name(self, prop: str, *, max_length: int, lower: bool = False) -> str:
        """Return the name from the property `prop`, or a generated one."""
        given = self.properties.get(prop)
        if given is not None:
            return str(given)
        return generated_name(self.stack.name, self.logical_id, max_length=max_length, lower=lower)


class Provider(ABC):
    """Creates, changes, and deletes resources of one CloudFormation type.

    `create` creates the resource and returns its physical id at once, so that later failures can be rolled
    back. `settle`, after `create` and `update`, applies all settings and waits until the resource is stable.
    `delete` treats a missing resource as deleted.
    """

    type_name: ClassVar[str]
    properties: ClassVar[Mapping[str, Property]]
    name_property: ClassVar[str | None] = None
    """The property with the resource's name, which is unique."""
    attribute_names: ClassVar[frozenset[str]] = frozenset()
    """Attributes for `Fn::GetAtt`."""
    kept_only: ClassVar[str] = ""
    """Why resources of this type have no effect, if so."""
    volatile_attributes: ClassVar[frozenset[str]] = frozenset()
    """Attributes that an update in place may change."""
    maps_tags: ClassVar[bool] = False
    """Whether `Tags` is a mapping; for most types it is a list of pairs."""

    def find(self, request: ResourceRequest) -> str | None:
        """Return the physical id of the existing resource with the template's name."""
        return None

    @abstractmethod
    def create(self, request: ResourceRequest) -> str:
        """Create the resource and return its physical id."""

    def settle(self, request: ResourceRequest, physical_id: str) -> None:  # noqa: B027 - optional
        """Apply all settings, and wait until the resource is stable."""

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:  # noqa: B027
        """Remove settings that the template no longer has."""

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
        """Add the stack's tags; the resource's own tags take precedence."""
        if not stack_tags or "Tags" not in self.properties:
            return properties
        if self.maps_tags:
            return {**properties, "Tags": {**stack_tags, **properties.get("Tags", {})}}
        own = properties.get("Tags", [])
        keys = {tag["Key"] for tag in own}
        more = [{"Key": key, "Value": value} for key, value in stack_tags.items() if key not in keys]
        return {**properties, "Tags": [*own, *more]}

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield errors in a resource's properties, before any resource is created."""
        for name, value in properties.items():
            known = self.properties.get(name)
            paths = [name] if known is None else known.violations(value, name)
            yield from (
                f"{logical_id}: property {path} of {self.type_name} is unknown to the local cloud"
                for path in paths
            )
        for name, declared in self.properties.items():
            if declared.required and name not in properties:
                yield f"{logical_id}: {self.type_name} needs property {name}"


def reject_change(request: ResourceRequest, previous: ResourceRequest, *names: str) -> None:
    """Reject changes of properties that can be neither changed nor replaced."""
    changed = [name for name in names if request.properties.get(name) != previous.properties.get(name)]
    if changed:
        raise UnchangeableError(f"{', '.join(changed)} cannot be changed once the resource exists")


def removed(request: ResourceRequest, previous: ResourceRequest, name: str) -> bool:
    """Return whether an update removes a property."""
    return name in previous.properties and name not in request.properties


class ignoring:  # noqa: N801 - used like a statement
    """Context that suppresses these error codes: the resource is already gone."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, ClientError) and aws_error_code(error) in self._codes
