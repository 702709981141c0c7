"""Tags of an environment, and AWS's limits for tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.base.error_kinds import InvalidValueError
from tritonstack.base.errors import UsageError
from tritonstack.base.yaml import Violation, raise_violations

MOST_TAGS = 50
LONGEST_KEY = 128
LONGEST_VALUE = 256
_CHARACTERS = re.compile(r"[\w\s.:/=+@-]*")
"""Characters that all services accept; some accept more."""


def _check_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    raise_violations(_tag_violations(tags))
    return tags


def _tag_violations(tags: Mapping[str, str]) -> Iterator[Violation]:
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            yield InvalidValueError.at((key,), "the tag prefix aws: is reserved", "choose another key")
        if not 1 <= len(key) <= LONGEST_KEY:
            yield InvalidValueError.at(
                (key,), f"expected a tag key of 1 to {LONGEST_KEY} characters", "choose another key"
            )
        if len(value) > LONGEST_VALUE:
            yield InvalidValueError.at(
                (key,),
                f"expected a value of at most {LONGEST_VALUE} characters, got {len(value)}",
                "shorten it",
            )
        for text in (key, value):
            if not _CHARACTERS.fullmatch(text):
                yield InvalidValueError.at(
                    (key,),
                    f"invalid characters for a tag in {text!r}",
                    "write letters, digits, spaces, and _ . : / = + - @",
                )
    if len(tags) > MOST_TAGS:
        yield InvalidValueError.at((), f"expected at most {MOST_TAGS} tags, got {len(tags)}", "remove some")


Tags = Annotated[Mapping[str, str], AfterValidator(_check_tags)]
"""Tags of all resources of an environment."""


# Expiring environments: owner, purpose, and expiry of an instance of a template.
#
# All three are tags of the instance's resources; those of its stacks are authoritative.


OWNER = "owner"
PURPOSE = "purpose"
EXPIRES = "expires"
LEASE_TAGS = (OWNER, PURPOSE, EXPIRES)

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_LIFETIME = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?")
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_NOT_IN_TAGS = re.compile(r"[^\w\s.:/=+@-]")


class LifetimeError(UsageError):
    """An instance of a template has expired, was extended meanwhile, or requests a longer lifetime than
    allowed. Choose another `--ttl`, or deploy it again.
    """

    code = "TS510"
    title = "Environment instance changed its lifetime"


def parse_lifetime(text: str) -> timedelta:
    """Parse a duration such as 30m, 4h, or 1d12h."""
    match = _LIFETIME.fullmatch(text)
    parts = zip(_UNITS.values(), match.groups(), strict=True) if match else ()
    length = sum((unit * int(number) for unit, number in parts if number), timedelta())
    if not length:
        raise ValueError(f"invalid duration {text!r}; write for example 30m, 4h, or 1d12h")
    return length


def _check_lifetime(text: str) -> str:
    parse_lifetime(text)
    return text


Lifetime = Annotated[str, AfterValidator(_check_lifetime)]
"""A duration: 30m, 4h, 1d12h."""


def parse_moment(text: str) -> datetime:
    """Parse the time of an `expires` tag."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise LifetimeError(
            f"invalid `expires` time {text!r}", remedy="write a UTC time such as 2026-11-22T08:30:00Z"
        ) from None


def moment_text(moment: datetime) -> str:
    """Format a time for an `expires` tag."""
    return moment.astimezone(UTC).strftime(_MOMENT)


def tag_text(text: str) -> str:
    """Replace characters that a tag value does not allow."""
    return _NOT_IN_TAGS.sub("-", text).strip()[:LONGEST_VALUE]


def has_expired(tags: Mapping[str, str], now: datetime) -> bool:
    """Check whether a resource with these tags has expired; False without a valid `expires` tag."""
    try:
        return EXPIRES in tags and parse_moment(tags[EXPIRES]) <= now
    except UsageError:
        return False
