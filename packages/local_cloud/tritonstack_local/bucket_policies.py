"""Evaluates bucket policies: which statements concern a request of this cloud, conditions included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

# What is true of every request to this cloud. Loopback counts as the secure transport: nothing on it can be
# read by another machine. No service of it calls S3 as anybody but the account it works for.
_ALWAYS = {"aws:securetransport": "true", "s3:tlsversion": "1.3", "aws:principalisawsservice": "false"}
_ACCOUNT = "aws:principalaccount"
_HEADERS = ("x-amz-server-side-encryption", "x-amz-server-side-encryption-aws-kms-key-id")
_KEYS = {*_ALWAYS, _ACCOUNT, *(f"s3:{header}" for header in _HEADERS)}

_OPERATORS: Mapping[str, Callable[[str, str], bool]] = {
    "Bool": lambda actual, wanted: actual == wanted.lower(),
    "StringEquals": lambda actual, wanted: actual == wanted,
    "NumericLessThan": lambda actual, wanted: float(actual) < float(wanted),
    "NumericGreaterThanEquals": lambda actual, wanted: float(actual) >= float(wanted),
}
_NEGATED = {"StringNotEquals": "StringEquals"}
_PRESENCE = "Null"

RequestContext = Mapping[str, str]
"""What is known of a request, by the condition keys of policies; a key that has no value is absent."""


def request_context(*, account: str | None, headers: Mapping[str, str]) -> RequestContext:
    """Say what conditions find true of a request of `account`; None stands for somebody unknown."""
    told = {f"s3:{header}": headers[header] for header in _HEADERS if header in headers}
    return {**_ALWAYS, **told, **({_ACCOUNT: account} if account else {})}


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


def effective_policy(
    policy: Mapping[str, Any],
    context: RequestContext,
    *,
    principals: Collection[str] = (),
    public: bool = True,
) -> dict[str, Any]:
    """Return the statements that concern a request, freed of their conditions.

    They concern everyone, or one of `principals`. Unless `public`, those that allow everyone do not count.
    """
    concerning = [
        {key: value for key, value in statement.items() if key != "Condition"} | {"Principal": "*"}
        for statement in _statements(policy)
        if _concerns(statement, principals, public=public)
        and not list(_unknown_conditions(statement))
        and _holds(statement, context)
    ]
    return {**policy, "Statement": concerning}


def _statements(policy: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    statements = policy["Statement"]
    return list(statements) if isinstance(statements, list) else [statements]


def _everyone(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return principal == "*" or (isinstance(principal, Mapping) and principal.get("AWS") in ("*", ["*"]))


def _concerns(statement: Mapping[str, Any], principals: Collection[str], *, public: bool) -> bool:
    if _everyone(statement):
        return public or statement.get("Effect") == "Deny"
    principal = statement.get("Principal")
    named = principal.get("AWS", []) if isinstance(principal, Mapping) else []
    return not {*principals}.isdisjoint([named] if isinstance(named, str) else named)


def _only_services(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal")
    return isinstance(principal, Mapping) and set(principal) == {"Service"}


def _conditions(statement: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for operator, tests in statement.get("Condition", {}).items():
        for key, wanted in tests.items():
            yield operator, key, [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _unknown_conditions(statement: Mapping[str, Any]) -> Iterator[str]:
    known = {*_OPERATORS, *_NEGATED, _PRESENCE}
    for operator, key, _ in _conditions(statement):
        if operator not in known or key.lower() not in _KEYS:
            yield f"{operator} {key}"


def _holds(statement: Mapping[str, Any], context: RequestContext) -> bool:
    return all(
        _matches(operator, context.get(key.lower()), wanted)
        for operator, key, wanted in _conditions(statement)
    )


def _matches(operator: str, actual: str | None, wanted: list[str]) -> bool:
    """Compare as IAM does: what is absent equals nothing, and so differs from everything."""
    if operator == _PRESENCE:
        return str(actual is None).lower() in [value.lower() for value in wanted]
    if operator in _NEGATED:
        return not _matches(_NEGATED[operator], actual, wanted)
    return actual is not None and any(_OPERATORS[operator](actual, value) for value in wanted)
