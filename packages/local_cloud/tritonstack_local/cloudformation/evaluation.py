"""Evaluate a template for a stack: parameters, conditions, rules, and intrinsic functions.

A value known only after the deployment resolves to `UnknownValue`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.template import Resource, StackParameter, StackTemplate
from tritonstack_local.scope import Scope


@dataclass(frozen=True)
class UnknownValue:
    """A value known only after the deployment; `certain` if it differs from the old one in any case."""

    reference: str
    certain: bool = True


class _NoValue:
    """The value of `AWS::NoValue`, which is removed from objects and lists."""

    def __reduce__(self) -> str:
        return "NO_VALUE"


NO_VALUE = _NoValue()


class ResourceValues(Protocol):
    """Values of `Ref` and `Fn::GetAtt`."""

    def reference(self, name: str, /) -> Any:
        """Value of `Ref`."""

    def attribute(self, logical_id: str, attribute: str, /) -> Any:
        """Value of `Fn::GetAtt`."""


def resolve(value: Any, scope: Evaluation) -> Any:
    """Return `value` with all intrinsic functions resolved."""
    if isinstance(value, Mapping):
        function = _function_in(value)
        if function is not None:
            return _applied(function, value[function], scope)
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
    if name in _OF_LISTS or (name in _FUNCTIONS and (name != "Condition" or isinstance(value[name], str))):
        return str(name)
    if isinstance(name, str) and name.startswith("Fn::"):
        raise TemplateError(f"{name} is not implemented in the local cloud")
    return None


def first_unknown(value: Any) -> UnknownValue | None:
    """Return the first unknown value in a resolved value."""
    if isinstance(value, UnknownValue):
        return value
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next((found for found in map(first_unknown, members) if found is not None), None)


def _ref(value: Any, scope: Evaluation) -> Any:
    return NO_VALUE if value == "AWS::NoValue" else scope.reference(str(value))


def _get_att(value: Any, scope: Evaluation) -> Any:
    parts = value.split(".", 1) if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) != 2:
        raise TemplateError("Fn::GetAtt takes a logical id and an attribute name")
    return scope.attribute(parts[0], str(resolve(parts[1], scope)))


def _if(value: Any, scope: Evaluation) -> Any:
    if not isinstance(value, list) or len(value) != 3:
        raise TemplateError("Fn::If takes a list of 3 arguments")
    return resolve(value[1] if scope.condition(value[0]) else value[2], scope)


def _sub(value: Any, scope: Evaluation) -> Any:
    template, local = (value, {}) if isinstance(value, str) else (value[0], resolve(value[1], scope))
    unknown: list[UnknownValue] = []

    def substitute(match: re.Match[str]) -> str:
        name = match[1].strip()
        logical_id, _, attribute = name.partition(".")
        if name in local:
            item = local[name]
        else:
            item = scope.attribute(logical_id, attribute) if attribute else scope.reference(name)
        if isinstance(item, UnknownValue):
            unknown.append(item)
            return ""
        return _text(item)

    text = re.sub(r"\$\{([^!}][^}]*)\}", substitute, template)
    return unknown[0] if unknown else text.replace("${!", "${")


def _get_azs(value: Any, scope: Evaluation) -> Any:
    return scope.availability_zones(_text(resolve(value, scope)) or str(scope.reference("AWS::Region")))


_FUNCTIONS: Mapping[str, Callable[[Any, Evaluation], Any]] = {
    "Ref": _ref,
    "Fn::GetAtt": _get_att,
    "Fn::If": _if,
    "Fn::Sub": _sub,
    "Fn::GetAZs": _get_azs,
    "Condition": lambda value, scope: scope.condition(value),
}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TemplateError(f"expected a string, found {value!r}")


def _join(delimiter: Any, items: Any) -> Any:
    unknown = first_unknown(items)
    if unknown is not None:
        return unknown
    if not isinstance(items, list):
        raise TemplateError("Fn::Join joins a list")
    return str(delimiter).join(_text(item) for item in items)


def _split(delimiter: Any, source: Any) -> Any:
    return source if isinstance(source, UnknownValue) else str(source).split(str(delimiter))


def _select(index: Any, items: Any) -> Any:
    if isinstance(items, UnknownValue):
        return items
    if not isinstance(items, list) or not 0 <= int(index) < len(items):
        raise TemplateError(f"Fn::Select cannot select nonexistent value at index {index}")
    return items[int(index)]


_TWO, _SEVERAL = range(2, 3), range(2, 11)
_OF_LISTS: Mapping[str, tuple[range, Callable[..., Any]]] = {
    "Fn::Join": (_TWO, _join),
    "Fn::Split": (_TWO, _split),
    "Fn::Select": (_TWO, _select),
    "Fn::Equals": (_TWO, lambda left, right: _text(left) == _text(right)),
    "Fn::And": (_SEVERAL, lambda *conditions: all(conditions)),
    "Fn::Or": (_SEVERAL, lambda *conditions: any(conditions)),
    "Fn::Not": (range(1, 2), lambda condition: not condition),
    "Fn::Contains": (_TWO, lambda items, item: item in items),
}
"""Functions of a list of resolved arguments, with its length."""


def _applied(name: str, value: Any, scope: Evaluation) -> Any:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](value, scope)
    counts, function = _OF_LISTS[name]
    if not isinstance(value, list) or len(value) not in counts:
        raise TemplateError(f"{name} takes a list of {' or '.join(map(str, counts))} arguments")
    return function(*(resolve(item, scope) for item in value))


@dataclass(frozen=True)
class StackIdentity:
    """Name, ARN, account, and region of a stack."""

    name: str
    stack_id: str
    account: str
    region: str

    @property
    def scope(self) -> Scope:
        """The scope of the stack."""
        return Scope(self.account, self.region)


class _NoResources:
    """No values: conditions and rules cannot refer to resources."""

    def reference(self, name: str) -> Any:
        raise TemplateError(f"Conditions and rules cannot refer to resource {name}")

    def attribute(self, logical_id: str, attribute: str) -> Any:
        raise TemplateError(f"Conditions and rules cannot refer to {logical_id}.{attribute}")


_NO_RESOURCES = _NoResources()


@dataclass
class Evaluation:
    """A template with its parameters. Resolves conditions once, resources on demand.

    It is the scope of the intrinsic functions; `answers` gives the values of resources.
    """

    template: StackTemplate
    parameters: Mapping[str, StackParameter]
    identity: StackIdentity
    zones: list[str]
    """The availability zones of the stack's region, if the template asks for them."""
    conditions: dict[str, bool | None] = field(default_factory=dict)
    answers: ResourceValues = _NO_RESOURCES

    def active_resources(self) -> dict[str, Resource]:
        """Return the resources whose condition holds."""
        return {
            logical_id: resource
            for logical_id, resource in self.template.resources.items()
            if resource.condition is None or self.condition(resource.condition)
        }

    def resolve(self, value: Any, answers: ResourceValues = _NO_RESOURCES) -> Any:
        """Resolve a part of the template; `answers` gives the values of resources."""
        return resolve(value, replace(self, answers=answers))

    def resolve_outputs(self, answers: ResourceValues) -> dict[str, dict[str, Any]]:
        """Resolve the outputs whose condition holds."""
        return {
            key: self.resolve({k: v for k, v in output.items() if k != "Condition"}, answers)
            for key, output in self.template.outputs.items()
            if "Condition" not in output or self.condition(output["Condition"])
        }

    def check_rules(self) -> None:
        """Raise TemplateError for failed assertions of the template's Rules."""
        failed = [
            str(assertion.get("AssertDescription", f"rule {name} does not hold"))
            for name, rule in self.template.rules.items()
            if self.resolve(rule.get("RuleCondition", True))
            for assertion in rule["Assertions"]
            if not self.resolve(assertion["Assert"])
        ]
        if failed:
            raise TemplateError("Template validation error: " + "; ".join(failed))

    def condition(self, name: str) -> bool:
        """Return whether a named condition holds."""
        if name not in self.template.conditions:
            raise TemplateError(f"Unresolved condition dependency {name}")
        if name in self.conditions:
            holds = self.conditions[name]
            if holds is None:
                raise TemplateError(f"Circular dependency in condition {name}")
            return holds
        self.conditions[name] = None
        self.conditions[name] = holds = bool(self.resolve(self.template.conditions[name]))
        return holds

    def reference(self, name: str) -> Any:
        """Return the value of a parameter, a pseudo parameter, or a resource."""
        pseudo_parameters = {
            "AWS::AccountId": self.identity.account,
            "AWS::Region": self.identity.region,
            "AWS::StackName": self.identity.name,
            "AWS::StackId": self.identity.stack_id,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in self.parameters:
            return self.parameters[name].resolved
        if name in pseudo_parameters:
            return pseudo_parameters[name]
        self._check_exists(name)
        return self.answers.reference(name)

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Return an attribute of a resource."""
        self._check_exists(logical_id)
        return self.answers.attribute(logical_id, attribute)

    def availability_zones(self, region: str) -> list[str]:
        """Return the zones of a region."""
        if region != self.identity.region:
            raise TemplateError(f"Fn::GetAZs of {region} is not implemented in the local cloud")
        return self.zones

    def _check_exists(self, logical_id: str) -> None:
        if self.answers is _NO_RESOURCES:
            return
        resource = self.template.resources.get(logical_id)
        inactive = resource and resource.condition and not self.condition(resource.condition)
        if resource is None or inactive:
            raise TemplateError(f"Unresolved resource dependencies [{logical_id}] in the template")
