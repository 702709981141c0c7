"""Isolate accounts within moto: a request reaches resources of its own account only.

moto resolves ARNs, registry IDs, and bucket names of any account. On AWS, resource policies decide on such
requests. The local cloud evaluates role trust policies only, and denies all other cross-account requests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from tritonstack_local.signatures.requests import DeniedError, Reason

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
