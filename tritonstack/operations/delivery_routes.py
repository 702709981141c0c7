"""Determine the environments that a change affects, and the delivery role of each, for workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.operations.checkout import Checkout, CheckoutError
from tritonstack.spec.environments.delivery import DeliverySpec
from tritonstack.spec.environments.environment import EnvironmentSpec

_NO_COMMIT = frozenset("0")
"""GitHub's commit id for a new branch: all zeros."""


@dataclass(frozen=True)
class DeliveryStage:
    """One environment in the delivery order."""

    name: str
    account: str
    region: str
    approval: bool
    affected: bool
    """Whether the change requires a deployment."""
    roles: dict[str, str]
    """The role ARN per duty."""


def delivery_stages(
    delivery: DeliverySpec, specs: Sequence[EnvironmentSpec], names: Sequence[str]
) -> list[DeliveryStage]:
    """Return the delivery stages in order."""
    approvals = {item.name: item.approval for item in delivery.environments}
    return [
        DeliveryStage(
            spec.name,
            spec.account,
            spec.region,
            approvals[spec.name],
            spec.name in names,
            _roles(spec, with_previews=_beside(delivery, spec.name)),
        )
        for spec in specs
    ]


def affected(delivery: DeliverySpec, changed: Callable[[str], bool]) -> list[str]:
    """Return the environments to deploy: the first always, others if their own lock or file changed."""
    return [name for index, name in enumerate(delivery.names) if index == 0 or changed(name)]


def changed_since(project: Project, commit: str | None) -> Callable[[str], bool]:
    """Return whether an environment's file or lock differs from a commit.

    If the commit is unknown, for example after a force push, everything counts as changed.
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
