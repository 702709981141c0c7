"""Resolve intrinsic functions; a value known only after creation resolves to `UnknownValue`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tritonstack_local.cloudformation.errors import TemplateError


@dataclass(frozen=True)
class UnknownValue:
    """A value known only after the deployment; `certain` if it differs from the old one in any case."""

    reference: str
    certain: bool = True

    def __str__(self) -> str:
        return "{{changeSet:KNOWN_AFTER_APPLY}}"


class _NoValue:
    """The value of `AWS::NoValue`, which is removed from objects and lists."""

    def __reduce__(self) -> str:
        return "NO_VALUE"


NO_VALUE = _NoValue()


class IntrinsicScope(Protocol):
    """The values a template refers to."""

    def reference(self, name: str) -> Any:
        """Value of `Ref` for a parameter, a pseudo parameter or a resource."""

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Value of `Fn::GetAtt`."""

    def condition(self, name: str) -> bool:
        """Value of a named condition."""

    def availability_zones(self, region: str) -> list[str]:
        """Zones of a region."""


def resolve(value: Any, scope: IntrinsicScope) -> Any:
    """Return `value` with all intrinsic functions resolved."""
    if isinstance(value, Mapping):
        function = _function_in(value)
        if function is not None:
            return _FUNCTIONS[function](value[function], scope)
        resolved = {key: resolve(member, scope) for key, member in value.items()}
        return {key: member for key, member in resolved.items() if member is not NO_VALUE}
    if isinstance(value, list):
        return [item for item in (resolve(item, scope) for item in value) if item is not NO_VALUE]
    if isinstance(value, str) and "{{resolve:" in value:
        raise TemplateError(f"Dynamic references are not implemented in the local cloud: {value}")
    return value


def _function_in(value: Mapping[str, Any]) -> str | None:
    if len(value) != 1:
        return None
    name = next(iter(value))
    if name in _FUNCTIONS and not (name == "Condition" and not isinstance(value[name], str)):
        return name
    if isinstance(name, str) and name.startswith("Fn::"):
        raise TemplateError(f"{name} is not implemented in the local cloud")
    return None


def first_unknown(value: Any) -> UnknownValue | None:
    """Return the first unknown value in a resolved value."""
    if isinstance(value, UnknownValue):
        return value
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next((found for found in map(first_unknown, members) if found is not None), None)


def _arguments(value: Any, scope: IntrinsicScope, *, function: str, counts: tuple[int, ...]) -> list[Any]:
    if not isinstance(value, list) or len(value) not in counts:
        raise TemplateError(f"{function} takes a list of {' or '.join(map(str, counts))} arguments")
    return [resolve(item, scope) for item in value]


def _ref(value: Any, scope: IntrinsicScope) -> Any:
    return NO_VALUE if value == "AWS::NoValue" else scope.reference(str(value))


def _get_att(value: Any, scope: IntrinsicScope) -> Any:
    parts = value.split(".", 1) if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) != 2:
        raise TemplateError("Fn::GetAtt takes a logical id and an attribute name")
    return scope.attribute(parts[0], str(resolve(parts[1], scope)))


def _if(value: Any, scope: IntrinsicScope) -> Any:
    if not isinstance(value, list) or len(value) != 3:
        raise TemplateError("Fn::If takes a list of 3 arguments")
    return resolve(value[1] if scope.condition(value[0]) else value[2], scope)


def _join(value: Any, scope: IntrinsicScope) -> Any:
    delimiter, items = _arguments(value, scope, function="Fn::Join", counts=(2,))
    unknown = first_unknown(items)
    if unknown is not None:
        return unknown
    if not isinstance(items, list):
        raise TemplateError("Fn::Join joins a list")
    return str(delimiter).join(_text(item) for item in items)


def _split(value: Any, scope: IntrinsicScope) -> Any:
    delimiter, source = _arguments(value, scope, function="Fn::Split", counts=(2,))
    return source if isinstance(source, UnknownValue) else str(source).split(str(delimiter))


def _select(value: Any, scope: IntrinsicScope) -> Any:
    index, items = _arguments(value, scope, function="Fn::Select", counts=(2,))
    if isinstance(items, UnknownValue):
        return items
    if not isinstance(items, list) or not 0 <= int(index) < len(items):
        raise TemplateError(f"Fn::Select cannot select nonexistent value at index {index}")
    return items[int(index)]


def _sub(value: Any, scope: IntrinsicScope) -> Any:
    text, local = (value, {}) if isinstance(value, str) else (value[0], resolve(value[1], scope))
    unknown: list[UnknownValue] = []

    def replace(match: re.Match[str]) -> str:
        found = _substitute(match[1].strip(), local, scope)
        if isinstance(found, UnknownValue):
            unknown.append(found)
            return ""
        return _text(found)

    replaced = re.sub(r"\$\{([^!}][^}]*)\}", replace, text)
    return unknown[0] if unknown else replaced.replace("${!", "${")


def _substitute(name: str, local: Mapping[str, Any], scope: IntrinsicScope) -> Any:
    if name in local:
        return local[name]
    logical_id, _, attribute = name.partition(".")
    return scope.attribute(logical_id, attribute) if attribute else scope.reference(name)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TemplateError(f"expected a string, found {value!r}")


def _get_azs(value: Any, scope: IntrinsicScope) -> Any:
    return scope.availability_zones(_text(resolve(value, scope)) or str(scope.reference("AWS::Region")))


def _equals(value: Any, scope: IntrinsicScope) -> bool:
    left, right = _arguments(value, scope, function="Fn::Equals", counts=(2,))
    return bool(_text(left) == _text(right))


def _and(value: Any, scope: IntrinsicScope) -> bool:
    return all(_arguments(value, scope, function="Fn::And", counts=tuple(range(2, 11))))


def _or(value: Any, scope: IntrinsicScope) -> bool:
    return any(_arguments(value, scope, function="Fn::Or", counts=tuple(range(2, 11))))


def _not(value: Any, scope: IntrinsicScope) -> bool:
    return not _arguments(value, scope, function="Fn::Not", counts=(1,))[0]


def _contains(value: Any, scope: IntrinsicScope) -> bool:
    items, wanted = _arguments(value, scope, function="Fn::Contains", counts=(2,))
    return wanted in items


def _condition(value: Any, scope: IntrinsicScope) -> bool:
    return scope.condition(value)


_FUNCTIONS: Mapping[str, Callable[[Any, IntrinsicScope], Any]] = {
    "Ref": _ref,
    "Fn::GetAtt": _get_att,
    "Fn::If": _if,
    "Fn::Join": _join,
    "Fn::Split": _split,
    "Fn::Select": _select,
    "Fn::Sub": _sub,
    "Fn::GetAZs": _get_azs,
    "Fn::Equals": _equals,
    "Fn::And": _and,
    "Fn::Or": _or,
    "Fn::Not": _not,
    "Fn::Contains": _contains,
    "Condition": _condition,
}
