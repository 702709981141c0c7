"""Read a template: the one resource of a type, and the permissions of a role."""

from typing import Any


def only(template: Any, resource_type: str) -> tuple[str, dict[str, Any]]:
    """Return the one resource of a type, with its logical id."""
    (items,) = template.find_resources(resource_type).items()
    item: tuple[str, dict[str, Any]] = items
    return item


def of_type(template: dict[str, Any], resource_type: str) -> dict[str, dict[str, Any]]:
    """Return the properties of all resources of a type by logical id."""
    resources = template["Resources"].items()
    return {key: item["Properties"] for key, item in resources if item["Type"] == resource_type}


def properties(template: Any, resource_type: str) -> dict[str, Any]:
    item: dict[str, Any] = only(template, resource_type)[1]["Properties"]
    return item


def statements(template: Any) -> list[dict[str, Any]]:
    """Return the permissions of a template's only role."""
    allowed: list[dict[str, Any]] = properties(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    return allowed


def granting(template: Any, action: str) -> list[dict[str, Any]]:
    """Return the statements that allow an action."""
    return [statement for statement in statements(template) if action in statement["Action"]]


def granted(template: Any, action: str) -> dict[str, Any]:
    """Return the one statement that allows an action."""
    (statement,) = granting(template, action)
    return statement


def production(template: Any) -> dict[str, Any]:
    """Return the one production variant."""
    (variant,) = properties(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    fields: dict[str, Any] = variant
    return fields
