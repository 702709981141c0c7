"""Evaluate the GitHub expressions that this project's workflows use; reject all others.

Values are those of JSON. Comparisons of strings ignore case, as GitHub's do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<text>'(?:[^']|'')*')|(?P<sign>&&|\|\||==|!=|[!().,*\[\]])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_-]*))"
)
_PLACE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


class Payload(dict[str, Any]):
    """What GitHub tells of an event: each kind of event has fields of its own, and others are nothing."""


class _Each(list[Any]):
    """What `*` stands for: whatever is asked of it is asked of each."""


class UnknownExpressionError(Exception):
    """The workflow uses an unsupported expression."""


@dataclass(frozen=True)
class Scope:
    """The contexts of an expression."""

    contexts: Mapping[str, Any]
    succeeded: bool = True
    """Whether all that came before did."""
    skipped: bool = False
    """Whether what came before and did not succeed was left out or put aside, rather than failed."""
    cancelled: bool = False
    """Whether the run was: a job that was put aside alone leaves the rest of its run going."""
    hash_files: Callable[[str], str] | None = None


def filled(text: str, scope: Scope) -> str:
    """Return a text with its expressions replaced by their values."""
    return _PLACE.sub(lambda found: _shown(evaluate(found[1], scope)), text)


def value_of(given: Any, scope: Scope) -> Any:
    """Return the value of a field: a single expression keeps its type."""
    if not isinstance(given, str):
        return given
    alone = _PLACE.fullmatch(given.strip())
    return evaluate(alone[1], scope) if alone else filled(given, scope)


def holds(condition: Any, scope: Scope) -> bool:
    """Return whether an `if` runs its job or step; without a status function, only after success."""
    if condition is None:
        return scope.succeeded
    text = str(condition)
    alone = _PLACE.fullmatch(text.strip())
    body = alone[1] if alone else text
    says = re.search(r"\b(always|failure|cancelled|success)\(\)", body)
    # Looked at first: what was left out has no outputs that the rest could name.
    return (scope.succeeded or says is not None) and bool(evaluate(body, scope))


def evaluate(text: str, scope: Scope) -> Any:
    """Return the value of an expression."""
    reader = _Reader(_tokens(text), scope)
    value = reader.either()
    if reader.left:
        raise UnknownExpressionError(f"{text!r}: {reader.left[0]} was not expected")
    return value


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise UnknownExpressionError(f"{text!r}: nothing is known of {text[at:]!r}")
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


class _Reader:
    """A recursive-descent parser of one expression."""

    def __init__(self, tokens: list[str], scope: Scope) -> None:
        self.left = tokens
        self._scope = scope
        self._counts = True

    def either(self) -> Any:
        value = self._both()
        while self._takes("||"):
            value = self._passed_over(self._both, value) if value else self._both()
        return value

    def _both(self) -> Any:
        value = self._compared()
        while self._takes("&&"):
            value = self._compared() if value else self._passed_over(self._compared, value)
        return value

    def _passed_over(self, part: Callable[[], Any], value: Any) -> Any:
        """Skip an operand that cannot change the result; its names need not exist."""
        counted, self._counts = self._counts, False
        part()
        self._counts = counted
        return value

    def _compared(self) -> Any:
        value = self._negated()
        for sign, wanted in (("==", True), ("!=", False)):
            if self._takes(sign):
                return (_folded(value) == _folded(self._negated())) is wanted
        return value

    def _negated(self) -> Any:
        return not self._negated() if self._takes("!") else self._path()

    def _path(self) -> Any:
        value = self._atom()
        while True:
            if self._takes("."):
                key = self._next()
            elif self._takes("["):
                key = self.either()
                self._require("]")
            else:
                return value
            value = _member(value, key) if self._counts else None

    def _atom(self) -> Any:
        token = self._next()
        if token == "(":
            value = self.either()
            self._require(")")
            return value
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.isdigit():
            return int(token)
        if token in ("true", "false", "null"):
            return json.loads(token)
        if self._takes("("):
            return self._called(token)
        return self._context(token) if self._counts else None

    def _context(self, name: str) -> Any:
        if name not in self._scope.contexts:
            raise UnknownExpressionError(f"the context {name!r} is not known")
        return self._scope.contexts[name]

    def _called(self, name: str) -> Any:
        arguments = []
        while not self._takes(")"):
            arguments.append(self.either())
            self._takes(",")
        return self._function(name, arguments) if self._counts else None

    def _function(self, name: str, arguments: list[Any]) -> Any:
        match name, arguments:
            case "fromJSON", [str(text)]:
                return json.loads(text)
            case "contains", [list(items), item]:
                return item in items
            case "hashFiles", [str(pattern)] if self._scope.hash_files:
                return self._scope.hash_files(pattern)
            case (("always" | "cancelled" | "success" | "failure"), []):
                return self._status(name)
        raise UnknownExpressionError(f"{name}({arguments}) is not known")

    def _status(self, name: str) -> bool:
        scope = self._scope
        failed = not (scope.succeeded or scope.skipped or scope.cancelled)
        return {
            "always": True,
            "cancelled": scope.cancelled,
            "success": scope.succeeded,
            "failure": failed,
        }[name]

    def _next(self) -> str:
        if not self.left:
            raise UnknownExpressionError("the expression ends too early")
        return self.left.pop(0)

    def _takes(self, token: str) -> bool:
        if self.left and self.left[0] == token:
            self.left.pop(0)
            return True
        return False

    def _require(self, token: str) -> None:
        if not self._takes(token):
            raise UnknownExpressionError(f"{token} was expected before {self.left[:1]}")


def _member(value: Any, key: Any) -> Any:
    """Reject missing members, which GitHub evaluates to nothing: a misspelled output would pass as empty."""
    if isinstance(value, _Each):
        return _Each(_member(one, key) for one in value)
    if isinstance(value, Payload):
        return value.get(key)
    if not isinstance(value, Mapping):
        raise UnknownExpressionError(f"{value!r} has no {key!r}")
    if key == "*":
        return _Each(value.values())
    if key not in value:
        raise UnknownExpressionError(f"there is no {key!r}; there are: {', '.join(value)}")
    return value[key]


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
