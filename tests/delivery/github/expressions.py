"""Evaluate the GitHub expressions that this project's workflows use, as Python; anything else is an error.

Values are those of JSON. Comparisons of strings respect case, which GitHub's do not: this is stricter.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_PLACE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_TOKEN = re.compile(r"'[^']*'|\.(?P<member>[\w-]+|\*)|&&|\|\||!(?!=)")
_OPERATORS = {"&&": " and ", "||": " or ", "!": " not "}


class Payload(dict[str, Any]):
    """An event's fields: each kind of event has fields of its own, and others are nothing."""

    def __missing__(self, key: str) -> None:
        return None


class _Members(dict[str, Any]):
    """Reject missing members, which GitHub evaluates to nothing: a misspelled output would pass as empty."""

    def __missing__(self, key: str) -> Any:
        if key == "*":
            return _Each(self.values())
        raise LookupError(f"there is no {key!r}; there are: {', '.join(self)}")


class _Each(list[Any]):
    """The values of `*`: a member of it is that member of each."""

    def __getitem__(self, key: Any) -> Any:
        return _Each(item[key] for item in self)


@dataclass(frozen=True)
class Scope:
    """The contexts of an expression."""

    contexts: Mapping[str, Any]
    succeeded: bool = True
    """Whether all earlier jobs or steps succeeded."""
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
    has_status = re.search(r"\b(always|cancelled)\(\)", body) is not None
    # Evaluated last: a skipped job has no outputs that the expression could name.
    return (scope.succeeded or has_status) and bool(evaluate(body, scope))


def evaluate(text: str, scope: Scope) -> Any:
    """Return the value of an expression."""
    names: dict[str, Any] = {
        **_strict(scope.contexts),
        "__builtins__": {},
        "null": None,
        "always": lambda: True,
        "cancelled": lambda: scope.cancelled,
        "contains": lambda items, item: item in items,
        "fromJSON": lambda value: _strict(json.loads(value)),
        "hashFiles": scope.hash_files,
    }
    return eval(_TOKEN.sub(_python, text.strip()), names)  # noqa: S307 - of this repository's own workflows


def _python(match: re.Match[str]) -> str:
    return f"[{match['member']!r}]" if match["member"] else _OPERATORS.get(match[0], match[0])


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        kind = Payload if isinstance(value, Payload) else _Members
        return kind({key: _strict(inner) for key, inner in value.items()})
    return [_strict(inner) for inner in value] if isinstance(value, list) else value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
