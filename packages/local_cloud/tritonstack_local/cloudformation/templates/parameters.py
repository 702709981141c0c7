"""Stack parameters: defaults, previous values, constraints, and values from SSM."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.errors import TemplateError

_SSM_VALUE = re.compile(r"AWS::SSM::Parameter::Value<(?P<type>.+)>")
_LISTS = {"CommaDelimitedList", "List<Number>", "List<String>"}
_KEYS = {
    *("AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description", "NoEcho", "Type")
}
_TYPES = _LISTS | {"String", "Number", "AWS::SSM::Parameter::Name"}


@dataclass(frozen=True)
class StackParameter:
    """One parameter of a stack. `value` is the given value, `resolved` the value of `Ref`."""

    key: str
    value: str
    resolved: str | list[str]
    no_echo: bool
    from_ssm: bool

    def described(self) -> dict[str, str]:
        """Return the parameter as DescribeStacks shows it."""
        shown = {"ParameterKey": self.key, "ParameterValue": "****" if self.no_echo else self.value}
        if self.from_ssm:
            shown["ResolvedValue"] = (
                self.resolved if isinstance(self.resolved, str) else ",".join(self.resolved)
            )
        return shown


def resolve_parameters(
    *,
    declared: Mapping[str, Mapping[str, Any]],
    given: Mapping[str, Mapping[str, Any]],
    previous: Mapping[str, StackParameter],
    read_ssm: Callable[[str], str],
) -> dict[str, StackParameter]:
    """Return the values of all declared parameters, or raise TemplateError with all errors.

    `given` holds a call's parameters by key: each with its ParameterValue, or with UsePreviousValue.
    """
    unknown = sorted(given.keys() - declared.keys())
    if unknown:
        raise TemplateError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values = {key: _value(key, declaration, given, previous) for key, declaration in declared.items()}
    missing = sorted(key for key, value in values.items() if value is None)
    if missing:
        raise TemplateError(f"Parameters: [{', '.join(missing)}] must have values")
    return {
        key: _parameter(key, declared[key], value, read_ssm)
        for key, value in values.items()
        if value is not None
    }


def _value(
    key: str,
    declaration: Mapping[str, Any],
    given: Mapping[str, Mapping[str, Any]],
    previous: Mapping[str, StackParameter],
) -> str | None:
    if key in given and not given[key].get("UsePreviousValue"):
        return str(given[key].get("ParameterValue", ""))
    if key in given and key in previous:
        return previous[key].value
    return str(declaration["Default"]) if "Default" in declaration else None


def _parameter(
    key: str, declaration: Mapping[str, Any], value: str, read_ssm: Callable[[str], str]
) -> StackParameter:
    stated = str(declaration.get("Type", ""))
    from_ssm = _SSM_VALUE.fullmatch(stated)
    kind = from_ssm["type"] if from_ssm else stated
    if unknown := sorted(declaration.keys() - _KEYS):
        raise TemplateError(f"Parameter {key}: {', '.join(unknown)} not implemented in the local cloud")
    if kind not in _TYPES:
        raise TemplateError(f"Parameter {key}: type {stated!r} is not implemented in the local cloud")
    text = read_ssm(value) if from_ssm else value
    items = [item.strip() for item in text.split(",")] if kind in _LISTS else None
    for item in items if items is not None else [text]:
        _check(key, declaration, item, number="Number" in kind)
    return StackParameter(
        key=key,
        value=value,
        resolved=text if items is None else items,
        no_echo=str(declaration.get("NoEcho", False)).lower() == "true",
        from_ssm=from_ssm is not None,
    )


def _check(key: str, declaration: Mapping[str, Any], value: str, *, number: bool) -> None:
    violations = []
    allowed = [str(item) for item in declaration.get("AllowedValues", [value])]
    if value not in allowed:
        violations.append(f"Parameter must be one of {', '.join(allowed)}")
    pattern = declaration.get("AllowedPattern", ".*")
    if not re.fullmatch(pattern, value, re.DOTALL):
        violations.append(f"Parameter must match pattern {pattern}")
    if number and not re.fullmatch(r"[+-]?\d+(\.\d*)?", value):
        violations.append(f"Parameter must be a number, not {value!r}")
    if violations:
        reason = declaration.get("ConstraintDescription") or f"failed to satisfy constraint: {violations[0]}"
        raise TemplateError(f"Parameter {key} {reason}")
