"""One resource type: its properties, and how its service creates, changes, and deletes it."""

from __future__ import annotations

import re
import secrets
import string
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code
from tritonstack_local.cloudformation.evaluation import StackIdentity
from tritonstack_local.cloudformation.providers.values import flag, shape_named, text, to_api, unknown_members
from tritonstack_local.service.clients import Clients

Members = Mapping[str, "Members | None"]


class ProviderError(Exception):
    """A resource operation failed; the message becomes the status reason."""


class UnchangeableError(ProviderError):
    """A change was rejected before it started: there is nothing to undo."""


@dataclass(frozen=True)
class Property:
    """One property of a resource type.

    `shape` is the botocore shape of its value (see values.py); `members` lists the members if
    CloudFormation's structure differs from the API's. Without either, the value is passed on unchanged, or,
    with `as_text`, as a string; objects as JSON. A `flag` is passed on if it is true.

    `reason` is a sentence on the limits of its effect, required if `effect` is False. `inner` holds such
    sentences of members, by their path below the property.
    """

    shape: str | None = None
    members: Members | None = None
    create_only: bool = False
    effect: bool = True
    required: bool = False
    as_text: bool = False
    flag: bool = False
    absent: Any = None
    """What `update_operation` sets once the template no longer has the property."""
    reason: str = ""
    inner: Mapping[str, str] = field(default_factory=dict)

    def violations(self, value: Any, path: str) -> Iterator[str]:
        """Yield the path of every unknown member of `value`."""
        if self.shape is not None:
            yield from unknown_members(value, shape_named(self.shape), path)
        elif self.members is not None:
            yield from _unknown(value, self.members, path)


def _unknown(value: Any, members: Members, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, members, path)
    elif isinstance(value, Mapping):
        for key, member in value.items():
            if key not in members:
                yield f"{path}.{key}"
            elif (inner := members[key]) is not None:
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
        return self.clients.client(service, self.stack.scope)

    def api(self, *names: str) -> dict[str, Any]:
        """Return the properties of these names that are set, in the API's format."""
        return {name: value for name in names if (value := self.value(name)) is not None}

    def value(self, name: str) -> Any:
        """Return one property in the API's format; None if it is not set, or an empty list or object."""
        declared, value = self.specification[name], self.properties.get(name)
        if value in (None, [], {}):
            return None
        if declared.flag:
            return flag(value) or None
        if declared.as_text:
            return text(value)
        return value if declared.shape is None else to_api(value, shape_named(declared.shape))

    def generated_name(self, form: Name) -> str:
        """Return `<stack>-<logical id>-<twelve random letters and digits>`, cut to the maximum length."""
        suffix = "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(12))
        room = form.longest - len(suffix) - 2
        stack_part = self.stack.name[: max(room - len(self.logical_id), room // 2)]
        name = f"{stack_part}-{self.logical_id[: room - len(stack_part)]}-{suffix}"
        name = re.sub(r"[^A-Za-z0-9-]", "", name)
        return name.lower() if form.lower else name

    @property
    def tags(self) -> dict[str, str]:
        """The tags, whether the template lists them or maps them."""
        tags = self.properties.get("Tags", {})
        pairs = tags if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}
        return {key: text(value) for key, value in pairs.items()}


def pairs(tags: Mapping[str, str]) -> Any:
    """Return tags as most services list them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@dataclass(frozen=True)
class PropertySetting:
    """A property that operation `put` sets in `argument`; `remove` removes it, or `default` replaces it."""

    put: str
    argument: str = ""
    remove: str = ""
    default: Any = None
    write: Callable[[Any], Any] = lambda value: value
    """Converts a value to the API's format."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Further arguments of `put`."""

    def arguments(self, value: Any) -> dict[str, Any]:
        """Return the arguments of `put`."""
        return {**({self.argument: self.write(value)} if self.argument else {}), **self.fixed}


@dataclass(frozen=True)
class Tagging:
    """The operations on tags. `target` names the resource, in the format of Provider.attributes."""

    add: str
    remove: str
    target: Mapping[str, str]
    tags: str = "Tags"
    keys: str = "TagKeys"
    write: Callable[[Mapping[str, str]], Any] = pairs


@dataclass(frozen=True)
class Name:
    """The property with the resource's name, which is unique, and the form of generated names.

    `argument` takes the name at creation, if that is not the physical id.
    """

    property: str | None = None
    longest: int = 128
    lower: bool = False
    argument: str = ""


@dataclass(frozen=True)
class Creation:
    """The operation that creates a resource. `physical_id` is a path in its answer, or the name is the id."""

    operation: str
    physical_id: str = ""


@dataclass(frozen=True)
class Deletion:
    """The operation that deletes a resource, and the error codes that say that it is gone."""

    operation: str = ""
    gone: str = ""
    takes_list: bool = False
    """Whether the operation takes a list of identifiers."""
    passes: Mapping[str, str] = field(default_factory=dict)
    """Properties that only apply to the deletion, with the arguments that take them."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """Creates, changes, and deletes resources of one CloudFormation type.

    Most types are described by these fields alone; the others override methods. A property is either the
    name, or in `settings`, `items`, or `unsent`, or one of the tags; the others are arguments of the
    operations of `creation`, `put_operation`, and `update_operation`, as far as the type has these.

    `create` creates the resource and returns its physical id at once, so that later failures can be rolled
    back. `settle`, after `create` and `update`, applies all settings and waits until the resource is stable.
    `update` removes what the template no longer has. `delete` treats a missing resource as deleted.
    """

    type_name: str
    properties: Mapping[str, Property]
    service: str = ""
    """boto3's name of the service, if it is not in the type's name."""
    identifier: str = ""
    """The argument of the service's operations that takes the physical id."""
    keys: tuple[str, ...] = ()
    """Properties that the service's operations need to find the resource."""
    name: Name = Name()
    creation: Creation | None = None
    """Without one, there is nothing to create before `settle`, and the name is the physical id."""
    put_operation: str = ""
    """Sets all arguments, after `create` and after `update`."""
    update_operation: str = ""
    update_fixed: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `update_operation`."""
    deletion: Deletion = Deletion()
    settings: Mapping[str, PropertySetting] = field(default_factory=dict)
    items: tuple[str, ...] = ()
    """Lists whose items are set one by one, by `put_item` and `remove_item`."""
    tagging: Tagging | None = None
    unsent: tuple[str, ...] = ()
    """Properties that are not passed to the service."""
    camel_case: bool = False
    """Whether the service's arguments begin with a small letter."""
    unchangeable: tuple[str, ...] = ()
    """Properties that can be changed on AWS, but not here."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Values of `Fn::GetAtt`: formats of properties, `id`, `name`, `account`, and `region`."""
    volatile_attributes: tuple[str, ...] = ()
    """Attributes that an update in place may change."""
    kept_only: str = ""
    """Why resources of this type have no effect, if so."""
    maps_tags: bool = False
    """Whether `Tags` is a mapping; for most types it is a list of pairs."""

    def create(self, request: ResourceRequest) -> str:
        """Create the resource, if that takes an operation, and return its physical id."""
        name = str(request.properties.get(self.name.property or "") or request.generated_name(self.name))
        if self.creation is None:
            return name
        path = self.creation.physical_id
        argument = self.name.argument or ("" if path else self.identifier)
        named = {argument: name} if argument else {}
        answer = self.call(request, self.creation.operation, **named, **self.arguments(request))
        for part in path.split(".") if path else ():
            answer = answer[int(part) if isinstance(answer, list) else part]
        return str(answer) if path else name

    def settle(self, request: ResourceRequest, physical_id: str) -> None:
        """Apply all settings, and wait until the resource is stable."""
        target = self.target(request, physical_id)
        if self.put_operation:
            self.call(request, self.put_operation, **target | self.arguments(request))
        for name, setting in self.settings.items():
            if (value := request.value(name)) is not None:
                self.call(request, setting.put, **target, **setting.arguments(value))
        for item in self.items_of(request):
            self.put_item(request, physical_id, item)
        if request.tags:
            self.add_tags(request, physical_id)

    def update(self, request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
        """Update the resource, and remove what the template no longer has."""
        before, after = previous.properties, request.properties
        if changed := [name for name in self.unchangeable if before.get(name) != after.get(name)]:
            raise UnchangeableError(f"{', '.join(changed)} cannot be changed once the resource exists")
        target = self.target(request, physical_id)
        removed = {name for name in self.properties if previous.value(name) is not None}
        removed = {name for name in removed if request.value(name) is None}
        if self.update_operation:
            absent = {name: self.properties[name].absent for name in removed}
            absent = self._cased({name: value for name, value in absent.items() if value is not None})
            arguments = target | absent | self.arguments(request)
            self.call(request, self.update_operation, **arguments, **self.update_fixed)
        for name, setting in self.settings.items():
            if name in removed and setting.remove:
                self.call(request, setting.remove, **target)
            elif name in removed and setting.default is not None:
                self.call(request, setting.put, **target, **setting.arguments(setting.default))
        kept = self.items_of(request)
        for item in self.items_of(previous):
            if item not in kept:
                self.remove_item(request, physical_id, item)
        if keys := sorted(previous.tags.keys() - request.tags.keys()):
            self.remove_tags(request, physical_id, keys)

    def delete(self, request: ResourceRequest, physical_id: str) -> None:
        """Remove the resource and wait until it is gone."""
        for item in self.items_of(request):
            with ignoring(self.deletion.gone):
                self.remove_item(request, physical_id, item)
        if not self.deletion.operation:
            return
        target: dict[str, Any] = self.target(request, physical_id)
        if self.deletion.takes_list:
            target = {f"{name}s": [value] for name, value in target.items()}
        passed = request.api(*self.deletion.passes)
        target |= {self.deletion.passes[name]: value for name, value in passed.items()}
        with ignoring(self.deletion.gone):
            self.call(request, self.deletion.operation, **target)

    def call(self, request: ResourceRequest, operation: str, **arguments: Any) -> Any:
        """Call an operation of the service."""
        service = self.service or self.type_name.split("::")[1].lower()
        return getattr(request.client(service), operation)(**arguments)

    def target(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the arguments that name the resource."""
        named = {self.identifier: physical_id} if self.identifier else {}
        return self._cased(request.api(*self.keys)) | named

    def arguments(self, request: ResourceRequest) -> dict[str, Any]:
        """Return the arguments that set up the resource, without its settings and tags."""
        others = {self.name.property, *self.unsent, *self.settings, *self.items, *self.deletion.passes}
        others |= {"Tags"} if self.tagging else set()
        return self._cased(request.api(*(name for name in self.properties if name not in others)))

    def _cased(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {small(name): value for name, value in arguments.items()} if self.camel_case else arguments

    def items_of(self, request: ResourceRequest) -> list[Any]:
        """Return everything that is set item by item."""
        return [item for name in self.items for item in request.value(name) or ()]

    def put_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        """Set an item, which may be set already."""
        raise NotImplementedError

    def remove_item(self, request: ResourceRequest, physical_id: str, item: Any) -> None:
        """Remove an item."""
        raise NotImplementedError

    def add_tags(self, request: ResourceRequest, physical_id: str) -> None:
        """Set the template's tags."""
        if self.tagging is not None:
            tags = {self.tagging.tags: self.tagging.write(request.tags)}
            self.call(
                request, self.tagging.add, **self._tag_target(request, physical_id, self.tagging), **tags
            )

    def remove_tags(self, request: ResourceRequest, physical_id: str, keys: list[str]) -> None:
        """Remove tags."""
        if self.tagging is not None:
            target = self._tag_target(request, physical_id, self.tagging)
            self.call(request, self.tagging.remove, **target, **{self.tagging.keys: keys})

    def read(self, request: ResourceRequest, physical_id: str) -> dict[str, Any]:
        """Return the value of every attribute."""
        return {name: self.formatted(request, physical_id, value) for name, value in self.attributes.items()}

    def formatted(self, request: ResourceRequest, physical_id: str, value: str) -> str:
        """Return the value of a format (see `attributes`)."""
        return value.format(
            **{name: text(value) for name, value in request.properties.items()},
            id=physical_id,
            name=self.name_of(request, physical_id),
            account=request.stack.account,
            region=request.stack.region,
        )

    def name_of(self, request: ResourceRequest, physical_id: str) -> str:
        """Return a resource's name: the template's, or the generated one at the end of its ARN.

        SageMaker's ARNs contain names in lower case, so only generated names can be read from them.
        """
        return str(request.properties.get(self.name.property or "", re.split("[:/]", physical_id)[-1]))

    def tagged(self, properties: Mapping[str, Any], stack_tags: Mapping[str, str]) -> Mapping[str, Any]:
        """Add the stack's tags; the resource's own tags take precedence."""
        if not stack_tags or "Tags" not in self.properties:
            return properties
        if self.maps_tags:
            return {**properties, "Tags": {**stack_tags, **properties.get("Tags", {})}}
        own = properties.get("Tags", [])
        keys = {tag["Key"] for tag in own}
        more = {key: value for key, value in stack_tags.items() if key not in keys}
        return {**properties, "Tags": [*own, *pairs(more)]}

    def violations(self, logical_id: str, properties: Mapping[str, Any]) -> Iterator[str]:
        """Yield errors in a resource's properties, before any resource is created."""
        for name, value in properties.items():
            declared = self.properties.get(name)
            paths = [name] if declared is None else declared.violations(value, name)
            yield from (
                f"{logical_id}: property {path} of {self.type_name} is unknown to the local cloud"
                for path in paths
            )
        for name, declared in self.properties.items():
            if declared.required and name not in properties:
                yield f"{logical_id}: {self.type_name} needs property {name}"

    def _tag_target(self, request: ResourceRequest, physical_id: str, tagging: Tagging) -> dict[str, str]:
        return {name: self.formatted(request, physical_id, value) for name, value in tagging.target.items()}


def small(name: str) -> str:
    """Return a name with a small first letter."""
    return f"{name[0].lower()}{name[1:]}"


@contextmanager
def ignoring(codes: str) -> Iterator[None]:
    """Suppress these error codes, which are separated by blanks: the resource is already gone."""
    try:
        yield
    except ClientError as error:
        if aws_error_code(error) not in codes.split():
            raise
