"""Read a template from JSON, or from YAML without short-form tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tritonstack.base.files import parse_json
from tritonstack_local.cloudformation.errors import TemplateError

_SECTIONS = {
    "AWSTemplateFormatVersion",
    "Description",
    "Metadata",
    "Parameters",
    "Conditions",
    "Rules",
    "Resources",
    "Outputs",
}
_RESOURCE_KEYS = {
    "Type",
    "Properties",
    "DependsOn",
    "Condition",
    "Metadata",
    "DeletionPolicy",
    "UpdateReplacePolicy",
}
MOST_RESOURCES = 500
_DELETION_POLICIES = {"Delete", "Retain", "RetainExceptOnCreate"}
_REPLACE_POLICIES = {"Delete", "Retain"}


@dataclass(frozen=True)
class Resource:
    """One entry under Resources, with unresolved properties."""

    logical_id: str
    type: str
    properties: Mapping[str, Any]
    depends_on: tuple[str, ...]
    condition: str | None
    metadata: Mapping[str, Any]
    deletion_policy: str
    update_replace_policy: str


@dataclass(frozen=True)
class StackTemplate:
    """A parsed template, nothing resolved."""

    body: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    conditions: Mapping[str, Any]
    rules: Mapping[str, Any]
    resources: Mapping[str, Resource]
    outputs: Mapping[str, Mapping[str, Any]]
    metadata: Mapping[str, Any] = field(default_factory=dict)


def parse_template(body: str) -> StackTemplate:
    """Parse a template body, or raise TemplateError with all errors in its structure."""
    document = _load(body)
    violations = [
        f"Invalid template property or properties [{key}]" for key in document if key not in _SECTIONS
    ]
    sections = {name: _mapping(document, name, violations) for name in sorted(_SECTIONS - _SCALAR_SECTIONS)}
    if not sections["Resources"]:
        violations.append("At least one Resources member must be defined.")
    if (count := len(sections["Resources"])) > MOST_RESOURCES:
        raise TemplateError(
            f"Template format error: Number of resources, {count}, is greater than maximum allowed, "
            f"{MOST_RESOURCES}"
        )
    for section in ("Parameters", "Rules", "Outputs"):
        for name in sections[section]:
            _mapping(sections[section], name, violations, where=f"{section}.")
    resources = {name: _resource(name, body, violations) for name, body in sections["Resources"].items()}
    if violations:
        raise TemplateError.listing(violations)
    return StackTemplate(
        body=body,
        description=str(document.get("Description", "")),
        parameters=sections["Parameters"],
        conditions=sections["Conditions"],
        rules=sections["Rules"],
        resources=resources,
        outputs=sections["Outputs"],
        metadata=sections["Metadata"],
    )


_SCALAR_SECTIONS = {"AWSTemplateFormatVersion", "Description"}


def _mapping(
    document: Mapping[str, Any], name: str, violations: list[str], *, where: str = ""
) -> Mapping[str, Any]:
    section = document.get(name) or {}
    if isinstance(section, Mapping):
        return section
    violations.append(f"{where}{name} must be an object")
    return {}


def _depends_on(body: Mapping[str, Any], violations: list[str], *, where: str) -> tuple[str, ...]:
    given = body.get("DependsOn") or []
    names = [given] if isinstance(given, str) else given
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    violations.append(f"{where}DependsOn must be a string or a list of strings")
    return ()


def _resource(logical_id: str, body: Any, violations: list[str]) -> Resource:
    if not isinstance(body, Mapping) or not isinstance(body.get("Type"), str):
        violations.append(f"Resource {logical_id} has no Type")
        body = {"Type": ""}
    violations.extend(
        f"Resource {logical_id}: attribute {key} is not implemented in the local cloud"
        for key in body
        if key not in _RESOURCE_KEYS
    )
    deletion = body.get("DeletionPolicy", "Delete")
    replacement = body.get("UpdateReplacePolicy", "Delete")
    if deletion not in _DELETION_POLICIES:
        violations.append(
            f"Resource {logical_id}: DeletionPolicy {deletion} is not one of {_listed(_DELETION_POLICIES)}"
        )
    if replacement not in _REPLACE_POLICIES:
        violations.append(
            f"Resource {logical_id}: UpdateReplacePolicy {replacement} is not one of "
            f"{_listed(_REPLACE_POLICIES)}"
        )
    where = f"Resource {logical_id}: "
    return Resource(
        logical_id=logical_id,
        type=body["Type"],
        properties=_mapping(body, "Properties", violations, where=where),
        depends_on=_depends_on(body, violations, where=where),
        condition=body.get("Condition"),
        metadata=_mapping(body, "Metadata", violations, where=where),
        deletion_policy=deletion,
        update_replace_policy=replacement,
    )


def _listed(values: set[str]) -> str:
    return ", ".join(sorted(values))


def _load(body: str) -> dict[str, Any]:
    try:
        document = parse_json(body) if body.lstrip().startswith("{") else yaml.load(body, _TemplateLoader)  # noqa: S506
    except (ValueError, yaml.YAMLError) as error:
        raise TemplateError(f"Template format error: {error}") from error
    except RecursionError:
        raise TemplateError("Template format error: the template is nested too deeply.") from None
    if not isinstance(document, dict):
        raise TemplateError("Template format error: unsupported structure.")
    return document


class _TemplateLoader(yaml.SafeLoader):
    """YAML whose dates are strings; the CDK writes no short forms, such as `!Sub`."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; reject aliases with CloudFormation's message."""
        if self.check_event(yaml.AliasEvent):
            raise TemplateError("Template error: YAML aliases are not allowed in CloudFormation templates")
        return super().compose_node(parent, index)


_TemplateLoader.add_constructor("tag:yaml.org,2002:timestamp", lambda _loader, node: node.value)
