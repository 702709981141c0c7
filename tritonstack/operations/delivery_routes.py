"""Which environments a change asks for, and who carries it there: what workflows ask first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.operations.checkout import Checkout, CheckoutError
from tritonstack.spec.environments.delivery import DeliverySpec
from tritonstack.spec.environments.environment import EnvironmentSpec

_NO_COMMIT = frozenset("0")
"""GitHub's word for what was there before a branch was made: nothing but zeros."""


@dataclass(frozen=True)
class Stop:
    """One environment on the road."""

    name: str
    account: str
    region: str
    approval: bool
    asked: bool
    """Whether what changed asks for a deploy of it."""
    roles: dict[str, str]
    """The ARN of the role for each duty."""

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def stops(delivery: DeliverySpec, specs: Sequence[EnvironmentSpec], asked: Sequence[str]) -> list[Stop]:
    """The road, environment by environment."""
    approvals = {item.name: item.approval for item in delivery.environments}
    return [
        Stop(
            spec.name,
            spec.account,
            spec.region,
            approvals[spec.name],
            spec.name in asked,
            _roles(spec, with_previews=_beside(delivery, spec.name)),
        )
        for spec in specs
    ]


def asked_for(delivery: DeliverySpec, changed: Callable[[str], bool]) -> list[str]:
    """The first environment takes every change; the others wait until their own lock or file asks for one."""
    return [name for index, name in enumerate(delivery.names) if index == 0 or changed(name)]


def changed_since(project: Project, commit: str | None) -> Callable[[str], bool]:
    """Whether an environment's file or lock is another one than in a commit.

    Where that commit is unknown, for example because the branch is new or was pushed over, everything is.
    """
    checkout = Checkout(project.root)
    before = _known(checkout, commit)

    def changed(environment: str) -> bool:
        files = (project.environment_file(environment), project.lock_file(environment))
        return before is None or any(checkout.file_at(before, file) != _text(file) for file in files)

    return changed


def _known(checkout: Checkout, commit: str | None) -> str | None:
    if not commit or set(commit) <= _NO_COMMIT:
        return None
    try:
        return checkout.resolve(commit)
    except CheckoutError:
        return None


def _text(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


def _beside(delivery: DeliverySpec, name: str) -> bool:
    return delivery.previews is not None and delivery.previews.environment == name


def _roles(spec: EnvironmentSpec, *, with_previews: bool) -> dict[str, str]:
    base = spec.delivery_base
    names = {duty.replace("-", "_"): naming.delivery_role_name(base, duty) for duty in naming.DUTIES}
    if spec.promotion is None:
        del names["promote"]
    if with_previews:
        names["preview_execution"] = naming.preview_execution_role_name(base)
    else:
        del names["preview"]
    return {duty: f"arn:aws:iam::{spec.account}:role/{name}" for duty, name in names.items()}
