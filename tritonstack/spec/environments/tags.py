"""The tags of an environment, and what AWS takes as one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator

from tritonstack.base.documents import Fault, refuse

MOST_TAGS = 50
LONGEST_KEY = 128
LONGEST_VALUE = 256
_CHARACTERS = re.compile(r"[\w\s.:/=+@-]*")
"""What every service takes; some take more."""


def _check_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    refuse(_tag_faults(tags))
    return tags


def _tag_faults(tags: Mapping[str, str]) -> Iterator[Fault]:
    for key, value in tags.items():
        if key.lower().startswith("aws:"):
            yield Fault((key,), "tags that begin with aws: are AWS's own", "choose another key")
        if not 1 <= len(key) <= LONGEST_KEY:
            yield Fault((key,), f"a tag's key has 1 to {LONGEST_KEY} characters", "choose another key")
        if len(value) > LONGEST_VALUE:
            yield Fault(
                (key,), f"the value has {len(value)} characters, and AWS takes {LONGEST_VALUE}", "shorten it"
            )
        for text in (key, value):
            if not _CHARACTERS.fullmatch(text):
                yield Fault(
                    (key,),
                    f"{text!r} has characters that not all of AWS takes in tags",
                    "write letters, digits, blanks and _ . : / = + - @",
                )
    if len(tags) > MOST_TAGS:
        yield Fault((), f"these are {len(tags)} tags, and a resource takes {MOST_TAGS}", "remove some")


Tags = Annotated[Mapping[str, str], AfterValidator(_check_tags)]
"""Tags on every resource of an environment."""
