"""Evaluate the roles and policies of a template as IAM does: who can assume a role, and what it allows.

It rejects every construct of IAM's policy language that it does not know, so that nothing is ignored.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Template = Mapping[str, Any]
Claims = Mapping[str, str]

ISSUER = "token.actions.githubusercontent.com"

_BESIDES = {
    "sagemaker:CreateEndpoint": "endpoint-config/any",
    "sagemaker:UpdateEndpoint": "endpoint-config/ServingConfig79E8D9DE-Any",
}
"""What has to be allowed beside the resource itself, by AWS's Service Authorization Reference."""


def roles(template: Template) -> dict[str, dict[str, Any]]:
    """Return the roles of a template by name."""
    return {
        item["Properties"]["RoleName"]: item["Properties"] | {"id": logical_id}
        for logical_id, item in template["Resources"].items()
        if item["Type"] == "AWS::IAM::Role"
    }


def trusts_job(role: Mapping[str, Any], claims: Claims) -> bool:
    """Return whether a GitHub job with these token claims can assume a role."""
    keys = {f"{ISSUER}:{name}": value for name, value in claims.items()}
    return any(
        _holds(statement.get("Condition", {}), keys)
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    )


def trusts_role(role: Mapping[str, Any], arn: str) -> bool:
    """Return whether another account's role can assume a role."""
    account = arn.split(":")[4]
    return any(
        _holds(statement.get("Condition", {}), {"aws:PrincipalArn": arn})
        for statement in role["AssumeRolePolicyDocument"]["Statement"]
        if statement["Action"] == "sts:AssumeRole"
        and f"arn:aws:iam::{account}:root" in listed(statement["Principal"].get("AWS", []))
    )


def may(template: Template, role: str, action: str, resource: str, **context: str) -> bool:
    """Return whether a role may perform an action on a resource, within its boundary."""
    resources = [resource]
    if action in _BESIDES:
        resources.append(":".join([*resource.split(":")[:5], _BESIDES[action]]))
    return all(_may(template, role, action, item, context) for item in resources)


def could(template: Template, role: str, action: str) -> bool:
    """Return whether a role may perform an action on any resource, within its boundary."""
    properties = roles(template)[role]
    boundary = list(_boundary(template, properties))
    return all(
        any(s["Effect"] == "Allow" and _named(s, "Action", action) for s in statements)
        for statements in (list(_statements(template, properties["id"])), *([boundary] if boundary else []))
    )


def _may(template: Template, role: str, action: str, resource: str, context: Mapping[str, str]) -> bool:
    properties = roles(template)[role]
    keys = {"aws:RequestedRegion": "eu-west-1", **context}
    own = list(_statements(template, properties["id"]))
    boundary = list(_boundary(template, properties))
    if any(_matches(s, action, resource, keys) for s in [*own, *boundary] if s["Effect"] == "Deny"):
        return False
    grants = any(_matches(s, action, resource, keys) for s in own if s["Effect"] == "Allow")
    edge = not boundary or any(
        _matches(s, action, resource, keys) for s in boundary if s["Effect"] == "Allow"
    )
    return grants and edge


def within(boundary: list[dict[str, Any]], action: str, resource: str, keys: Claims) -> bool:
    """Return whether a boundary with Allow statements permits an action."""
    assert {statement["Effect"] for statement in boundary} == {"Allow"}
    return any(_matches(statement, action, resource, keys) for statement in boundary)


def _statements(template: Template, role_id: str) -> Iterator[dict[str, Any]]:
    for item in template["Resources"].values():
        held_by = item["Properties"].get("Roles", [])
        if item["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy") and {"Ref": role_id} in held_by:
            yield from item["Properties"]["PolicyDocument"]["Statement"]


def _boundary(template: Template, role: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the boundary; None for a policy that the template does not contain."""
    boundary = role["PermissionsBoundary"]
    if isinstance(boundary, dict) and "Ref" in boundary:
        yield from template["Resources"][boundary["Ref"]]["Properties"]["PolicyDocument"]["Statement"]


def _matches(statement: Mapping[str, Any], action: str, resource: str, keys: Claims) -> bool:
    return (
        _named(statement, "Action", action)
        and _named(statement, "Resource", resource)
        and _holds(statement.get("Condition", {}), keys)
    )


def _named(statement: Mapping[str, Any], field: str, value: str) -> bool:
    if field in statement:
        return any(_like(pattern, value) for pattern in listed(statement[field]))
    return not any(_like(pattern, value) for pattern in listed(statement[f"Not{field}"]))


def _holds(condition: Mapping[str, Mapping[str, Any]], keys: Claims) -> bool:
    return all(
        _OPERATORS[operator](listed(values), keys.get(key))
        for operator, fields in condition.items()
        for key, values in fields.items()
    )


def _like(pattern: str, value: str) -> bool:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, value) is not None


def _equal(values: list[str], value: str | None) -> bool:
    return value in values


def _is_like(values: list[str], value: str | None) -> bool:
    return value is not None and any(_like(pattern, value) for pattern in values)


_OPERATORS: Mapping[str, Callable[[list[str], str | None], bool]] = {
    "StringEquals": _equal,
    "ArnEquals": _is_like,
    "StringLike": _is_like,
    "Bool": _equal,
    "Null": lambda wanted, value: wanted == [str(value is None).lower()],
    "StringNotEquals": lambda wanted, value: value not in wanted,
}


def listed(value: Any) -> list[Any]:
    """Return a policy element as a list."""
    return value if isinstance(value, list) else [value]


def requested(template: Template, place: Mapping[str, str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield each action and resource that a template's roles are granted, with the keys of its condition."""
    resources = template["Resources"].values()
    policies = [item["Properties"] for item in resources if item["Type"] == "AWS::IAM::Policy"]
    for item in resources:
        if item["Type"] == "AWS::IAM::Role":
            policies += item["Properties"].get("Policies", [])
    for policy in policies:
        for statement in listed(policy["PolicyDocument"]["Statement"]):
            keys = {
                key: _shown(listed(values)[0], "", place)
                for condition in statement.get("Condition", {}).values()
                for key, values in condition.items()
            }
            if keys.get("kms:ViaService", "").startswith("sns"):
                keys["kms:EncryptionContext:aws:sns:topicArn"] = _shown({}, "sns", place)
            for action in listed(statement["Action"]):
                for resource in listed(statement["Resource"]):
                    yield action, _shown(resource, action.partition(":")[0], place), keys


def _shown(value: Any, service: str, place: Mapping[str, str]) -> str:
    """Return a name in place of a pattern, and an ARN in place of a reference."""
    if isinstance(value, str):
        return value if value == "*" else re.sub(r"[*?]", "x", value)
    if not service:
        return "x"
    base = place["base"]
    examples = {
        "kms": "key/0a1b",
        "sns": f"{base}-topic",
        "ec2": "subnet/subnet-1",
        "logs": f"log-group:/{base}/x",
    }
    return f"arn:aws:{service}:{place['region']}:{place['account']}:{examples[service]}"
