"""Resolve template values for a deployed stack, as far as possible from outside.

Values come from physical ids, parameters, and names; others are UNKNOWN and skipped in comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tritonstack.operate.synth.assembly import Template
from tritonstack.operate.synth.endpoint_template import COMPONENT, CONFIG, ENDPOINT, MODEL


class Unknown:
    """A value that only CloudFormation knows."""

    def __repr__(self) -> str:
        return "(unknown)"


UNKNOWN: Final = Unknown()
_REFERENCE = re.compile(r"\$\{([^!}][^}]*)\}")


@dataclass(frozen=True)
class StackFacts:
    """The values that a template's references resolve to."""

    name: str
    account: str
    region: str
    resources: Mapping[str, str] = field(default_factory=dict)
    """Physical ids by logical id."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameter values; SSM parameters are already resolved."""

    @property
    def partition(self) -> str:
        """The partition of the region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"

    def pseudo(self, name: str) -> Any:
        """Return a pseudo parameter."""
        return {
            "AWS::AccountId": self.account,
            "AWS::Region": self.region,
            "AWS::StackName": self.name,
            "AWS::Partition": self.partition,
            "AWS::URLSuffix": "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com",
        }.get(name, UNKNOWN)


@dataclass(frozen=True)
class Resolver:
    """Resolves the values of one template for one stack."""

    template: Template
    facts: StackFacts

    def value(self, value: Any) -> Any:
        """Return a value without references; UNKNOWN where it cannot be resolved."""
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._call(name, argument)
        return {key: self.value(item) for key, item in value.items() if item != {"Ref": "AWS::NoValue"}}

    def _call(self, name: str, argument: Any) -> Any:
        functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._reference,
            "Fn::GetAtt": self._attribute,
            "Fn::Join": self._join,
            "Fn::Split": self._split,
            "Fn::Select": self._select,
            "Fn::Sub": self._substitute,
        }
        return functions[name](argument) if name in functions else UNKNOWN

    def _reference(self, name: str) -> Any:
        if name.startswith("AWS::"):
            return self.facts.pseudo(name)
        declared = self.template.get("Parameters", {}).get(name)
        if declared is None:
            return self.facts.resources.get(name, UNKNOWN)
        value = self.facts.parameters.get(name, UNKNOWN)
        if isinstance(value, str) and "List<" in declared["Type"]:
            return value.split(",")
        return value

    def _attribute(self, argument: Any) -> Any:
        logical_id, _, attribute = (
            argument.partition(".") if isinstance(argument, str) else (argument[0], "", argument[1])
        )
        resource = self.template["Resources"].get(logical_id)
        physical = self.facts.resources.get(logical_id)
        if resource is None or physical is None:
            return UNKNOWN
        kind = resource["Type"]
        if (kind, attribute) in _NAMES_AT_THE_END:
            return physical.rpartition("/")[2]
        if (kind, attribute) == ("AWS::SNS::Topic", "TopicArn"):
            return physical
        if (kind, attribute) == ("AWS::IAM::Role", "Arn") and "Path" not in resource.get("Properties", {}):
            return f"arn:{self.facts.partition}:iam::{self.facts.account}:role/{physical}"
        return UNKNOWN

    def _join(self, argument: Any) -> Any:
        separator, parts = argument[0], self.value(argument[1])
        if not isinstance(parts, list) or any(isinstance(part, Unknown) for part in parts):
            return UNKNOWN
        return separator.join(str(part) for part in parts)

    def _split(self, argument: Any) -> Any:
        text = self.value(argument[1])
        return text.split(argument[0]) if isinstance(text, str) else UNKNOWN

    def _select(self, argument: Any) -> Any:
        items = self.value(argument[1])
        return items[int(argument[0])] if isinstance(items, list) else UNKNOWN

    def _substitute(self, argument: Any) -> Any:
        text, variables = (
            (argument, {}) if isinstance(argument, str) else (argument[0], self.value(argument[1]))
        )

        def lookup(name: str) -> Any:
            if name in variables:
                return variables[name]
            return self._attribute(name) if "." in name else self._reference(name)

        values = {name: lookup(name) for name in _REFERENCE.findall(text)}
        if any(isinstance(value, Unknown) for value in values.values()):
            return UNKNOWN
        filled = _REFERENCE.sub(lambda match: str(values[match[1]]), text)
        return filled.replace("${!", "${")


_NAMES_AT_THE_END = frozenset(
    {
        (MODEL, "ModelName"),
        (CONFIG, "EndpointConfigName"),
        (ENDPOINT, "EndpointName"),
        (COMPONENT, "InferenceComponentName"),
    }
)
"""Attributes that are the last part of an ARN, which is the physical id."""
