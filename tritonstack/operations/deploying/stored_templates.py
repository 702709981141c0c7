"""Templates as CloudFormation gives them back: every character beyond ASCII has become a question mark.

The resources themselves have the right ones. So what was deployed can be told only in the light of what is to
be: a change of nothing but such characters is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def as_stored(text: str) -> str:
    """A text of a template as CloudFormation gives it back."""
    return _BEYOND_ASCII.sub("?", text)


def as_written(stored: Any, wanted: Any) -> Any:
    """A template, or a part of one, as it was before CloudFormation took it in.

    `wanted` is what is to stand in its place, if anything is.
    """
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return {name: as_written(value, wanted.get(name)) for name, value in stored.items()}
    if isinstance(stored, list) and isinstance(wanted, list):
        beside = [*wanted, *[None] * (len(stored) - len(wanted))]
        return [as_written(value, other) for value, other in zip(stored, beside, strict=False)]
    if isinstance(stored, str) and isinstance(wanted, str) and stored == as_stored(wanted):
        return wanted
    return stored
