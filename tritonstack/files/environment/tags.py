"""Tags of an environment, and AWS's limits for tags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.base.error_kinds import InvalidValueError
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
