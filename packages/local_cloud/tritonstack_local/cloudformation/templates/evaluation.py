"""Evaluate a template for a stack: parameters, pseudo parameters, conditions, and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.templates.intrinsics import resolve
from tritonstack_local.cloudformation.templates.parameters import StackParameter
from tritonstack_local.cloudformation.templates.template import Resource, StackTemplate


@dataclass(frozen=True)
class StackIdentity:
    """Name, ARN, account, and region of a stack."""

    name: str
    stack_id: str
    account: str
    region: str


class TemplateLookups(Protocol):
    """Lookups of a template in its account and region."""

    def imported(self, export: str) -> str:
        """Value of another stack's export."""

    def availability_zones(self, region: str) -> list[str]:
        """Zones of a region."""


class ResourceValues(Protocol):
    """Values of `Ref` and `Fn::GetAtt` for the resources of a stack."""

    def reference(self, logical_id: str) -> Any:
        """Value of `Ref`."""

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Value of `Fn::GetAtt`."""


@dataclass
class Evaluation:
    """A template with its parameters. Resolves conditions once, resources on demand."""

    template: StackTemplate
    parameters: Mapping[str, StackParameter]
    identity: StackIdentity
    dependencies: TemplateLookups
    imports: set[str] = field(default_factory=set)
    _conditions: dict[str, bool | None] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # The lookups are not persisted; they are set again after a restart.
        return {name: value for name, value in vars(self).items() if name != "dependencies"}

    def active_resources(self) -> dict[str, Resource]:
        """Return the resources whose condition holds."""
        return {
            logical_id: resource
            for logical_id, resource in self.template.resources.items()
            if resource.condition is None or self.condition(resource.condition)
        }

    def resolve(self, value: Any, answers: ResourceValues) -> Any:
        """Resolve a part of the template; `answers` gives the values of resources."""
        return resolve(value, _ResourceScope(self, answers))

    def resolve_outputs(self, answers: ResourceValues) -> dict[str, dict[str, Any]]:
        """Resolve the outputs whose condition holds."""
        active = {
            key: output
            for key, output in self.template.outputs.items()
            if "Condition" not in output or self.condition(output["Condition"])
        }
        return {
            key: self.resolve({k: v for k, v in output.items() if k != "Condition"}, answers)
            for key, output in active.items()
        }

    def check_rules(self) -> None:
        """Raise TemplateError for failed assertions of the template's Rules."""
        failed = [
            str(assertion.get("AssertDescription", f"rule {name} does not hold"))
            for name, rule in self.template.rules.items()
            if resolve(rule.get("RuleCondition", True), _ResourceScope(self, _NoResources()))
            for assertion in rule["Assertions"]
            if not resolve(assertion["Assert"], _ResourceScope(self, _NoResources()))
        ]
        if failed:
            raise TemplateError("Template validation error: " + "; ".join(failed))

    def condition(self, name: str) -> bool:
        """Return whether a named condition holds."""
        if name not in self.template.conditions:
            raise TemplateError(f"Unresolved condition dependency {name}")
        if name in self._conditions:
            known = self._conditions[name]
            if known is None:
                raise TemplateError(f"Circular dependency in condition {name}")
            return known
        self._conditions[name] = None
        holds = bool(resolve(self.template.conditions[name], _ResourceScope(self, _NoResources())))
        self._conditions[name] = holds
        return holds

    def named_value(self, name: str) -> Any | None:
        """Return the value of a parameter or pseudo parameter; None if it does not exist."""
        if name in self.parameters:
            return self.parameters[name].resolved
        return {
            "AWS::AccountId": self.identity.account,
            "AWS::Region": self.identity.region,
            "AWS::StackName": self.identity.name,
            "AWS::StackId": self.identity.stack_id,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NotificationARNs": [],
        }.get(name)


class _NoResources:
    """No values: conditions and rules cannot refer to resources."""

    def reference(self, logical_id: str) -> Any:
        raise TemplateError(f"Conditions and rules cannot refer to resource {logical_id}")

    def attribute(self, logical_id: str, attribute: str) -> Any:
        raise TemplateError(f"Conditions and rules cannot refer to {logical_id}.{attribute}")


@dataclass(frozen=True)
class _ResourceScope:
    """Combines an evaluation and its resource values for intrinsic functions."""

    evaluation: Evaluation
    answers: ResourceValues

    @property
    def mappings(self) -> Mapping[str, Any]:
        return self.evaluation.template.mappings

    def reference(self, name: str) -> Any:
        value = self.evaluation.named_value(name)
        if value is not None:
            return value
        self._check_exists(name)
        return self.answers.reference(name)

    def attribute(self, logical_id: str, attribute: str) -> Any:
        self._check_exists(logical_id)
        return self.answers.attribute(logical_id, attribute)

    def condition(self, name: str) -> bool:
        return self.evaluation.condition(name)

    def imported(self, export: str) -> str:
        self.evaluation.imports.add(export)
        return self.evaluation.dependencies.imported(export)

    def availability_zones(self, region: str) -> list[str]:
        return self.evaluation.dependencies.availability_zones(region)

    def _check_exists(self, logical_id: str) -> None:
        if isinstance(self.answers, _NoResources):
            return
        resource = self.evaluation.template.resources.get(logical_id)
        inactive = resource and resource.condition and not self.evaluation.condition(resource.condition)
        if resource is None or inactive:
            raise TemplateError(f"Unresolved resource dependencies [{logical_id}] in the template")
