"""Evaluate the GitHub expressions that this project's workflows use, as Python; reject all others.

Values are those of JSON. Comparisons of strings ignore case, as GitHub's do.
"""

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
_PYTHON = {"&&": " and ", "||": " or ", "!": " not ", "true": "True", "false": "False", "null": "None"}


class UnknownExpressionError(Exception):
    """The workflow uses an unsupported expression."""


class Payload(dict[str, Any]):
    """An event's fields: each kind of event has fields of its own, and others are nothing."""

    def __missing__(self, key: str) -> None:
        return None


class _Members(dict[str, Any]):
    """Reject missing members, which GitHub evaluates to nothing: a misspelled output would pass as empty."""

    def __missing__(self, key: str) -> Any:
        if key == "*":
            return _Each(self.values())
        raise UnknownExpressionError(f"there is no {key!r}; there are: {', '.join(self)}")


class _Each(list[Any]):
    """The values of `*`: a member of it is that member of each."""

    def __getitem__(self, key: Any) -> Any:
        return _Each(item[key] for item in self)


class _Text(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.casefold() == other.casefold()

    def __ne__(self, other: object) -> bool:
        return not self == other


@dataclass(frozen=True)
class Scope:
    """The contexts of an expression."""

    contexts: Mapping[str, Any]
    succeeded: bool = True
    """Whether all earlier jobs or steps succeeded."""
    skipped: bool = False
    """Whether what did not succeed was skipped or cancelled rather than failed."""
    cancelled: bool = False
    """Whether the run was cancelled: a job that is cancelled alone does not cancel its run."""
    hash_files: Callable[[str], str] | None = None


def filled(text: str, scope: Scope) -> str:
    """Return a text with its expressions replaced by their values."""
    return _PLACE.sub(lambda match: _shown(evaluate(match[1], scope)), text)


def value_of(value: Any, scope: Scope) -> Any:
    """Return the value of a field: a single expression keeps its type."""
    if not isinstance(value, str):
        return value
    alone = _PLACE.fullmatch(value.strip())
    return evaluate(alone[1], scope) if alone else filled(value, scope)


def holds(condition: Any, scope: Scope) -> bool:
    """Return whether an `if` runs its job or step; without a status function, only after success."""
    if condition is None:
        return scope.succeeded
    alone = _PLACE.fullmatch(str(condition).strip())
    body = alone[1] if alone else str(condition)
    has_status = re.search(r"\b(always|failure|cancelled|success)\(\)", body) is not None
    # Evaluated last: a skipped job has no outputs that the expression could name.
    return (scope.succeeded or has_status) and bool(evaluate(body, scope))


def evaluate(text: str, scope: Scope) -> Any:
    """Return the value of an expression."""
    failed = not (scope.succeeded or scope.skipped or scope.cancelled)
    names: dict[str, Any] = {
        "__builtins__": {},
        "_Text": _Text,
        "context": lambda name: _strict(_Members(scope.contexts)[name]),
        "always": lambda: True,
        "cancelled": lambda: scope.cancelled,
        "success": lambda: scope.succeeded,
        "failure": lambda: failed,
        "contains": lambda items, item: item in items,
        "fromJSON": lambda value: _strict(json.loads(value)),
        "hashFiles": scope.hash_files,
    }
    try:
        return eval(_translated(text), names)  # noqa: S307 - of this repository's own workflows
    except (SyntaxError, NameError, TypeError) as error:
        raise UnknownExpressionError(f"{text!r}: {error}") from error


def _translated(text: str) -> str:
    code, at, before, text = "", 0, "", text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise UnknownExpressionError(f"{text!r}: unknown from {text[at:]!r}")
        token, at = match[0].strip(), match.end()
        if before == ".":
            code += f"[{token!r}]"
        elif match["text"]:
            code += f"_Text({token[1:-1].replace(chr(39) * 2, chr(39))!r})"
        elif match["name"] and token not in _PYTHON and text[at : at + 1] != "(":
            code += f" context({token!r})"
        elif token != ".":
            code += _PYTHON.get(token, token)
        before = token
    return code.strip()


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        kind = Payload if isinstance(value, Payload) else _Members
        return kind({key: _strict(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return [_strict(inner) for inner in value]
    return _Text(value) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
