"""Environments for a while: who owns an instance of a template, what it is for, and when it expires.

All three are tags of everything that belongs to the instance; those on its stacks are what counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.base.errors import UsageError
from tritonstack.spec.environments.tags import LONGEST_VALUE

OWNER = "owner"
PURPOSE = "purpose"
EXPIRES = "expires"
LEASE_TAGS = (OWNER, PURPOSE, EXPIRES)

_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_LIFETIME = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?")
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_NOT_IN_TAGS = re.compile(r"[^\w\s.:/=+@-]")


def parse_lifetime(text: str) -> timedelta:
    """How long 30m, 4h, 1d12h are."""
    found = _LIFETIME.fullmatch(text)
    parts = zip(_UNITS.values(), found.groups(), strict=True) if found else ()
    length = sum((unit * int(number) for unit, number in parts if number), timedelta())
    if not length:
        raise ValueError(f"{text!r} is not a length of time; write for example 30m, 4h or 1d12h")
    return length


def _check_lifetime(text: str) -> str:
    parse_lifetime(text)
    return text


Lifetime = Annotated[str, AfterValidator(_check_lifetime)]
"""A length of time: 30m, 4h, 1d12h."""


def parse_moment(text: str) -> datetime:
    """The time that an `expires` tag tells."""
    try:
        return datetime.strptime(text, _MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time in UTC as `expires` has it", remedy="write it like 2026-11-22T08:30:00Z"
        ) from None


def moment_text(moment: datetime) -> str:
    """A time as `expires` has it."""
    return moment.astimezone(UTC).strftime(_MOMENT)


def tag_text(text: str) -> str:
    """What of a text can stand in a tag's value: names of people and machines have brackets and more."""
    return _NOT_IN_TAGS.sub("-", text).strip()[:LONGEST_VALUE]


def has_expired(tags: Mapping[str, str], now: datetime) -> bool:
    """Whether what carries these tags is to go; what says nothing of it, or nothing readable, stays."""
    try:
        return EXPIRES in tags and parse_moment(tags[EXPIRES]) <= now
    except UsageError:
        return False
