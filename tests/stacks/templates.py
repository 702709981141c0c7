"""Read a template: the one resource of a type, and the permissions of a role."""

from typing import Any


def only(template: Any, resource_type: str) -> tuple[str, dict[str, Any]]:
    """Return the one resource of a type, with its logical id."""
    (found,) = template.find_resources(resource_type).items()
    item: tuple[str, dict[str, Any]] = found
    return item


def properties(template: Any, resource_type: str) -> dict[str, Any]:
    found: dict[str, Any] = only(template, resource_type)[1]["Properties"]
    return found


def statements(template: Any) -> list[dict[str, Any]]:
    """Return the permissions of a template's only role."""
    found: list[dict[str, Any]] = properties(template, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    return found


def granting(template: Any, action: str) -> list[dict[str, Any]]:
    """Return the statements that allow an action."""
    return [statement for statement in statements(template) if action in statement["Action"]]


def granted(template: Any, action: str) -> dict[str, Any]:
    """Return the one statement that allows an action."""
    (found,) = granting(template, action)
    return found


def production(template: Any) -> dict[str, Any]:
    """Return the one production variant."""
    (variant,) = properties(template, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    found: dict[str, Any] = variant
    return found
