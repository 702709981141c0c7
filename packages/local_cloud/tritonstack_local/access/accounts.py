"""Isolate accounts within moto: a request reaches resources of its own account only.

moto resolves ARNs, registry IDs, and bucket names of any account. On AWS, resource policies decide on such
requests. The local cloud evaluates role trust policies only, and denies all other cross-account requests.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from tritonstack_local.access.requests import DeniedError, Reason

_current = threading.local()


@contextmanager
def confined_to(account: str) -> Iterator[None]:
    """Deny this thread access to other accounts."""
    outer = getattr(_current, "account", None)
    _current.account = account
    try:
        yield
    finally:
        _current.account = outer


@contextmanager
def all_accounts() -> Iterator[None]:
    """Allow access to other accounts after a policy was evaluated."""
    outer = getattr(_current, "account", None)
    _current.account = None
    try:
        yield
    finally:
        _current.account = outer


def in_all_accounts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, wrapped to run with access to all accounts."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with all_accounts():
            return function(*arguments, **named)

    return call


def within_account(lookup: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Return moto's lookup of backends, which then denies backends of other accounts."""

    @wraps(lookup)
    def checked(backends: Any, region: str) -> Any:
        check_account(backends.account_id, backends.service_name)
        return lookup(backends, region)

    return checked


def check_account(owner: str, service: str) -> None:
    """Deny access to resources of other accounts."""
    account = getattr(_current, "account", None)
    if account is not None and owner != account:
        raise DeniedError(
            Reason.ACCESS_DENIED,
            f"Account {account} is not authorized to access resources of account {owner} in {service}: "
            "the local cloud evaluates role trust policies only",
        )


# An unsupported condition is evaluated restrictively: Allow statements do not apply then, Deny statements do.
# (moto treats a statement with a false condition as a denial of everything.)


_ACTION = "sts:AssumeRole"
_Statement = Mapping[str, Any]


def trusts(document: Mapping[str, Any], caller: str) -> bool:
    """Return whether a trust policy allows a principal of another account to assume its role."""
    partition, account = caller.split(":")[1], caller.split(":")[4]
    principals = {"*", caller, account, f"arn:{partition}:iam::{account}:root"}
    context = {"aws:principalarn": caller, "aws:principalaccount": account}
    effects = set()
    for statement in _listed(document["Statement"]):
        if not (_concerns_action(statement) and principals & set(_principals(statement))):
            continue
        conditions = set(_conditions(statement, context))
        is_allowing = statement["Effect"] == "Allow"
        if conditions <= {True} if is_allowing else False not in conditions:
            effects.add(statement["Effect"])
    return effects == {"Allow"}


def _principals(statement: _Statement) -> list[str]:
    principal = statement.get("Principal", {})
    return ["*"] if principal == "*" else _listed(principal.get("AWS", []))


def _concerns_action(statement: _Statement) -> bool:
    if "NotAction" in statement:
        return not any(_like(_ACTION, pattern) for pattern in _listed(statement["NotAction"]))
    return any(_like(_ACTION, pattern) for pattern in _listed(statement.get("Action", "*")))


def _conditions(statement: _Statement, context: Mapping[str, str]) -> Iterator[bool | None]:
    """Return whether each condition holds; None if it is not supported."""
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


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
