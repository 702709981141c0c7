"""Replace characters that a terminal's encoding lacks, such as ASCII or Latin-1."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

ERRORS = "tritonstack-ascii"
"""Name of the error handler, for `errors=` of a stream."""
_REPLACEMENTS: Mapping[str, str] = {
    "✓": "+",
    "✗": "x",
    "–": "-",
    "…": "...",
    "→": "->",
    "≠": "!=",
    "≥": ">=",
    "≤": "<=",
    "±": "+-",
    "×": "x",
}


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    text = "".join(_REPLACEMENTS.get(character) or ascii(character)[1:-1] for character in characters)
    return text, error.end


codecs.register_error(ERRORS, _replaced)
