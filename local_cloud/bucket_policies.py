"""Evaluates bucket policies: which statements concern a request of this cloud, conditions included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

# What is true of every request to this cloud. Loopback counts as the secure transport: nothing on it can be
# read by another machine.
_CONTEXT = {"aws:securetransport": "true", "s3:tlsversion": "1.3"}

_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "Bool": lambda actual, wanted: actual == wanted.lower(),
    "StringEquals": lambda actual, wanted: actual == wanted,
    "StringNotEquals": lambda actual, wanted: actual != wanted,
    "NumericLessThan": lambda actual, wanted: float(actual) < float(wanted),
    "NumericGreaterThanEquals": lambda actual, wanted: float(actual) >= float(wanted),
}


class UnsupportedPolicyError(Exception):
    """A policy whose effect cannot be worked out here."""


def check_policy(policy: Mapping[str, Any]) -> None:
    """Raise UnsupportedPolicyError for a Deny statement that the embedded cloud could not honour."""
    for statement in _statements(policy):
        if statement.get("Effect") != "Deny" or _only_services(statement):
            continue
        if not _everyone(statement):
            raise UnsupportedPolicyError(
                f"bucket policy statement {statement.get('Sid', '')!r} denies single principals; "
                "the embedded cloud evaluates Deny for everyone only"
            )
        unknown = list(_unknown_conditions(statement))
        if unknown:
            raise UnsupportedPolicyError(
                f"bucket policy statement {statement.get('Sid', '')!r} depends on {', '.join(unknown)}, "
                "which the embedded cloud cannot evaluate"
            )


def effective_policy(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements that concern requests of this cloud, freed of their conditions."""
    concerning = [
        {key: value for key, value in statement.items() if key != "Condition"} | {"Principal": "*"}
        for statement in _statements(policy)
        if _everyone(statement) and not list(_unknown_conditions(statement)) and _holds(statement)
    ]
    return {**policy, "Statement": concerning}


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements = policy["Statement"]
    return list(statements) if isinstance(statements, list) else [statements]


def _everyone(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return principal == "*" or (isinstance(principal, Mapping) and principal.get("AWS") in ("*", ["*"]))


def _only_services(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return isinstance(principal, Mapping) and set(principal) == {"Service"}


def _conditions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for operator, tests in statement.get("Condition", {}).items():
        for key, wanted in tests.items():
            yield operator, key, [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _unknown_conditions(statement: Mapping[str, Any]) -> Iterator[str]:
    for operator, key, _ in _conditions(statement):
        if operator not in _OPERATORS or key.lower() not in _CONTEXT:
            yield f"{operator} {key}"


def _holds(statement: Mapping[str, Any]) -> bool:
    return all(
        any(_OPERATORS[operator](_CONTEXT[key.lower()], value) for value in wanted)
        for operator, key, wanted in _conditions(statement)
    )
