"""CloudWatch Logs' filter patterns for plain text: terms, "phrases", ?options, -exclusions and %expressions%.

Patterns for JSON (`{ $.code = 500 }`) and for columns (`[ip, user, ...]`) are not built and refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TERM = re.compile(r'\s*(?P<sign>[-?]?)(?:"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s"]+))')
_WORD = re.compile(r"\w+")
# What AWS lets an expression contain; it has no groups.
_EXPRESSION = re.compile(r"[A-Za-z0-9:_#=@/;,\-^$?\[\]{}|\\*+.]*")


class PatternError(Exception):
    """A pattern that is wrong, or not built; the message says which."""


@dataclass(frozen=True)
class FilterPattern:
    """What a line must contain: every term, one of the options, none of the exclusions, the expression."""

    terms: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    exclusions: tuple[str, ...] = ()
    expression: re.Pattern[str] | None = None

    def matches(self, line: str) -> bool:
        """Tell whether a line is meant. Letter case counts."""
        return (
            all(term in line for term in self.terms)
            and (not self.options or any(term in line for term in self.options))
            and not any(term in line for term in self.exclusions)
            and (self.expression is None or self.expression.search(line) is not None)
        )


def parse_pattern(text: str) -> FilterPattern:
    """Read a pattern, or raise PatternError. The empty one matches every line."""
    stripped = text.strip()
    if stripped[:1] in {"{", "["}:
        kind = "JSON" if stripped[0] == "{" else "columns"
        raise PatternError(
            f"The embedded cloud does not offer filter patterns for {kind}, only for plain text."
        )
    if stripped.startswith("%"):
        return FilterPattern(expression=_expression(stripped))
    by_sign: dict[str, list[str]] = {"": [], "?": [], "-": []}
    for sign, term in _terms(stripped):
        by_sign[sign].append(term)
    if by_sign["?"] and (by_sign[""] or by_sign["-"]):
        raise PatternError(
            "A filter pattern with optional terms (?) beside others is read by CloudWatch Logs without its "
            "question marks; write what is meant."
        )
    return FilterPattern(tuple(by_sign[""]), tuple(by_sign["?"]), tuple(by_sign["-"]))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise PatternError(f"Invalid character(s) in term '{text[position:]}'")
        position = match.end()
        word = match["word"]
        if word is not None and _WORD.fullmatch(word) is None:
            raise PatternError(f"Invalid character(s) in term '{word}'; put it between double quotes")
        yield match["sign"], re.sub(r"\\(.)", r"\1", match["phrase"]) if word is None else word


def _expression(text: str) -> re.Pattern[str]:
    inner = text[1:-1]
    if len(text) < 2 or not text.endswith("%") or "%" in inner:
        raise PatternError(
            "The embedded cloud offers one expression between two % signs, with nothing beside it."
        )
    if _EXPRESSION.fullmatch(inner) is None:
        raise PatternError(
            "Invalid character(s) in the expression: CloudWatch Logs takes no groups and no spaces"
        )
    try:
        return re.compile(inner, re.ASCII)
    except re.error as error:
        raise PatternError(f"Invalid expression: {error}") from error
