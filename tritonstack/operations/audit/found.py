"""What a listing finds, and by which names it finds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tritonstack.operations.aws import Cloud

STACK_TAG = "aws:cloudformation:stack-name"
"""CloudFormation's own tag on what it makes, where the service lets it."""

STACK_ID_TAG = "aws:cloudformation:stack-id"
"""Another one: the ARN of that stack, and so its region."""

Key = tuple[str, str]
"""A type and an id."""


@dataclass(frozen=True)
class Found:
    """One resource, as a service lists it."""

    type: str
    """By CloudFormation's name for it, or like one where CloudFormation makes none."""
    id: str
    """As CloudFormation has it."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    within: Key | None = None
    """What it is a part of: it comes with that, and goes with it."""
    pending: bool = False
    """It waits to be deleted: nobody can use it any more, nor hurry that."""

    @property
    def key(self) -> Key:
        """What tells it from any other."""
        return self.type, self.id


@dataclass(frozen=True)
class Scope:
    """What of an account is meant: all whose names begin like this."""

    base: str
    """tritonstack-dev for one environment, tritonstack for all of them."""
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Tags that all of it bears as far as services know tags."""
    whole: bool = False
    """All environments are meant whose names begin with the base, instead of one."""

    def names(self, text: str, before: str = "") -> bool:
        """Whether a name begins with the base, as a whole word, after what stands before it."""
        if not text.startswith(before):
            return False
        rest = text.removeprefix(before)
        return rest == self.base or (rest.startswith(self.base) and rest[len(self.base)] in "-/_")

    def tagged(self, tags: Mapping[str, str]) -> bool:
        """Whether tags say that something is meant."""
        ours = bool(self.tags) and self.tags.items() <= tags.items()
        return ours or any(self.names(tags.get(key, "")) for key in ("Name", STACK_TAG))


@dataclass(frozen=True)
class Unseen:
    """What a service lists, and does not let be looked at, so that nobody knows whose it is."""

    type: str
    id: str


Find = Callable[[Cloud, Scope], Iterator[Found | Unseen]]


@dataclass(frozen=True)
class Listing:
    """One question to one service."""

    service: str
    """As boto3 calls it."""
    types: tuple[str, ...]
    """All that it finds."""
    find: Find


def pages(client: Any, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
    """Everything that a listing of AWS holds, page by page."""
    for page in client.get_paginator(operation).paginate(**parameters):
        yield from page.get(key, ())


def tags_of(item: Iterable[Mapping[str, str]], key: str = "Key", value: str = "Value") -> dict[str, str]:
    """AWS's list of tags as a mapping."""
    return {tag[key]: tag[value] for tag in item}


def made_elsewhere(tags: Mapping[str, str], region: str) -> bool:
    """Whether a stack of another region made something that belongs to the whole account."""
    arn = tags.get(STACK_ID_TAG, "")
    return arn.startswith("arn:") and arn.split(":")[3] != region


def snake_case(name: str) -> str:
    """As boto3 calls what AWS calls EndpointConfig."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
