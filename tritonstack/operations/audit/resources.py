"""Records of listed resources and the name patterns to search for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonstack.operations.aws import Cloud

STACK_TAG = "aws:cloudformation:stack-name"
"""The tag that CloudFormation sets on resources of services that support it."""

STACK_ID_TAG = "aws:cloudformation:stack-id"
"""The tag with the stack's ARN, and so its region."""

Key = tuple[str, str]
"""A type and an id."""


@dataclass(frozen=True)
class AwsResource:
    """One resource, as a service lists it."""

    type: str
    """The CloudFormation type, or a similar name if there is none."""
    id: str
    """The physical id in CloudFormation."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    within: Key | None = None
    """The parent resource, which it is created and deleted with."""
    pending: bool = False
    """Whether its deletion is scheduled: it is unusable and cannot be deleted faster."""

    @property
    def key(self) -> Key:
        """Return the type and id."""
        return self.type, self.id


@dataclass(frozen=True)
class AuditScope:
    """The names and tags to search for in an account."""

    base: str
    """tritonstack-dev for one environment, tritonstack for all."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Tags of all its resources, for services that support tags."""
    whole: bool = False
    """Whether all environments whose names begin with the base are in scope."""

    def names(self, text: str, before: str = "") -> bool:
        """Return whether a name has the base as a whole word, after a known prefix."""
        if not text.startswith(before):
            return False
        rest = text.removeprefix(before)
        return rest == self.base or (rest.startswith(self.base) and rest[len(self.base)] in "-/_")

    def tagged(self, tags: Mapping[str, str]) -> bool:
        """Return whether tags are in scope."""
        matches = bool(self.tags) and self.tags.items() <= tags.items()
        return matches or any(self.names(tags.get(key, "")) for key in ("Name", STACK_TAG))


@dataclass(frozen=True)
class UnreadableResource:
    """A listed resource that cannot be described, so its owner is unknown."""

    type: str
    id: str


Find = Callable[[Cloud, AuditScope], Iterator[AwsResource | UnreadableResource]]


@dataclass(frozen=True)
class Listing:
    """One listing of one service."""

    service: str
    """The boto3 service name."""
    types: tuple[str, ...]
    """The resource types that it finds."""
    find: Find


def tags_of(item: Iterable[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
    """Convert AWS tags to a mapping."""
    return {tag[key]: tag[value] for tag in item}


def created_in_other_region(tags: Mapping[str, str], region: str) -> bool:
    """Return whether another region's stack created a global resource."""
    arn = tags.get(STACK_ID_TAG, "")
    return arn.startswith("arn:") and arn.split(":")[3] != region


def snake_case(name: str) -> str:
    """Return the boto3 spelling of a name such as EndpointConfig."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def scalable_target_id(item: Mapping[str, Any]) -> str:
    """Return the physical id in CloudFormation of a scalable target, or of the target of an item."""
    return "|".join((item["ResourceId"], item["ScalableDimension"], item["ServiceNamespace"]))
