"""Isolate accounts within moto: a request reaches resources of its own account only.

moto resolves ARNs, registry ids and bucket names of any account. On AWS, resource policies decide about such
requests. The embedded cloud evaluates bucket policies and the trust policies of roles; it denies every other
request across accounts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from tritonstack_local.access.denials import DeniedError, Reason

_current = threading.local()


@contextmanager
def confined_to(account: str) -> Iterator[None]:
    """Deny this thread the resources of other accounts."""
    outer = getattr(_current, "account", None)
    _current.account = account
    try:
        yield
    finally:
        _current.account = outer


@contextmanager
def crossing() -> Iterator[None]:
    """Lift the confinement for what a policy has been evaluated for."""
    outer = getattr(_current, "account", None)
    _current.account = None
    try:
        yield
    finally:
        _current.account = outer


def in_crossing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Create a function that runs without the confinement."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with crossing():
            return function(*arguments, **named)

    return call


def check_account(owner: str, service: str) -> None:
    """Deny access to a resource of another account than the request's."""
    account = getattr(_current, "account", None)
    if account is not None and owner != account:
        raise DeniedError(
            Reason.ACCESS_DENIED,
            f"Account {account} is not authorized to access resources of account {owner} in {service}: "
            "the embedded cloud evaluates bucket policies and role trust policies only",
        )
