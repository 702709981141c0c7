"""Compare templates that CloudFormation stores with `?` for every non-ASCII character.

The resources have the original text. A change of only such characters is not detected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def as_stored(text: str) -> str:
    """Return the text as CloudFormation returns it."""
    return _BEYOND_ASCII.sub("?", text)


def as_written(stored: Any, expected: Any) -> Any:
    """Restore the original text of a stored template or part.

    `expected` is the new value in its place, if any.
    """
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        return {name: as_written(value, expected.get(name)) for name, value in stored.items()}
    if isinstance(stored, list) and isinstance(expected, list):
        beside = [*expected, *[None] * (len(stored) - len(expected))]
        return [as_written(value, other) for value, other in zip(stored, beside, strict=False)]
    if isinstance(stored, str) and isinstance(expected, str) and stored == as_stored(expected):
        return expected
    return stored
