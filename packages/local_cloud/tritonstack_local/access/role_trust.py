"""Decide whether a role's trust policy allows a principal of another account to assume it.

An unsupported condition is evaluated restrictively: Allow statements do not apply then, Deny statements do.
(moto treats a statement with a false condition as a denial of everything.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

_ACTION = "sts:AssumeRole"
_Statement = Mapping[str, Any]


def trusts(document: Mapping[str, Any], caller: str) -> bool:
    """Return whether a trust policy allows a principal of another account to assume its role."""
    context = {"aws:PrincipalArn": caller, "aws:PrincipalAccount": _account(caller)}
    statements = _concerning(_of_action([document]), caller)
    return any(_allows(item, "*", context) for item in statements) and not any(
        _denies(item, "*", context) for item in statements
    )


def _of_action(documents: Iterable[Mapping[str, Any]]) -> list[_Statement]:
    """Return the policies' statements on AssumeRole."""
    return [
        statement
        for document in documents
        for statement in _listed(document["Statement"])
        if _names(statement, "Action", _ACTION)
    ]


def _concerning(trust: Sequence[_Statement], role: str) -> list[_Statement]:
    """Return the trust policy's statements that apply to a role, by name or by account."""
    account = _account(role)
    partition = role.split(":")[1]
    principals = {"*", role, account, f"arn:{partition}:iam::{account}:root"}
    return [item for item in trust if principals & set(_principals(item))]


def _principals(statement: _Statement) -> list[str]:
    principal = statement.get("Principal", {})
    return ["*"] if principal == "*" else _listed(principal.get("AWS", []))


def _allows(statement: _Statement, resource: str, caller: Mapping[str, str]) -> bool:
    return (
        statement["Effect"] == "Allow"
        and _names(statement, "Resource", resource)
        and all(_conditions(statement, caller))
    )


def _denies(statement: _Statement, resource: str, caller: Mapping[str, str]) -> bool:
    return (
        statement["Effect"] == "Deny"
        and _names(statement, "Resource", resource)
        and False not in set(_conditions(statement, caller))
    )


def _names(statement: _Statement, field: str, value: str) -> bool:
    """Return whether a statement's actions or resources match; trust policies have no resources."""
    if f"Not{field}" in statement:
        return not any(_like(value, pattern) for pattern in _listed(statement[f"Not{field}"]))
    return any(_like(value, pattern) for pattern in _listed(statement.get(field, "*")))


def _conditions(statement: _Statement, caller: Mapping[str, str]) -> Iterator[bool | None]:
    """Return whether all conditions hold; None if one is not supported."""
    context = {key.lower(): value for key, value in caller.items()}
    for operator, tests in statement.get("Condition", {}).items():
        for key, operands in tests.items():
            compare, value = _OPERATORS.get(operator), context.get(key.lower())
            if compare is None or value is None:
                yield None
            else:
                yield any(compare(value, item) for item in _listed(operands))


def _like(value: str, pattern: str) -> bool:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, value) is not None


_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": str.__eq__,
    "StringLike": _like,
    "ArnEquals": _like,
    "ArnLike": _like,
}


def _account(arn: str) -> str:
    return arn.split(":")[4]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
