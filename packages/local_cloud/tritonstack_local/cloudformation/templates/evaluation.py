"""Evaluate a template for a stack: parameters, pseudo parameters, conditions, and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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

    def availability_zones(self, region: str) -> list[str]:
        """Zones of a region."""


class ResourceValues(Protocol):
    """Values of `Ref` and `Fn::GetAtt` for the resources of a stack."""

    def reference(self, logical_id: str) -> Any:
        """Value of `Ref`."""

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Value of `Fn::GetAtt`."""


class _NoResources:
    """No values: conditions and rules cannot refer to resources."""

    def reference(self, logical_id: str) -> Any:
        raise TemplateError(f"Conditions and rules cannot refer to resource {logical_id}")

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
    dependencies: TemplateLookups
    conditions: dict[str, bool | None] = field(default_factory=dict)
    answers: ResourceValues = _NO_RESOURCES

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
            "AWS::NotificationARNs": [],
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
        return self.dependencies.availability_zones(region)

    def _check_exists(self, logical_id: str) -> None:
        if self.answers is _NO_RESOURCES:
            return
        resource = self.template.resources.get(logical_id)
        inactive = resource and resource.condition and not self.condition(resource.condition)
        if resource is None or inactive:
            raise TemplateError(f"Unresolved resource dependencies [{logical_id}] in the template")
