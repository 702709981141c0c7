"""Determine the delivery order, the roles, and the environments that a change affects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.base.results import Internal, Shown, public
from tritonstack.files.environment.delivery import DeliverySpec, require_delivery
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles
from tritonstack.operate.shared.checkout import Checkout, CheckoutError
from tritonstack.operate.shared.session import Session

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


def _by_name(stages: tuple[DeliveryStage, ...]) -> dict[str, DeliveryStage]:
    return {stage.name: stage for stage in stages}


@dataclass(frozen=True)
class DeliveryPlan:
    """How a change reaches the environments of a project."""

    spec: Internal[DeliverySpec]
    stages: Annotated[tuple[DeliveryStage, ...], Shown(_by_name)]
    """In delivery order."""

    @public
    def affected(self) -> list[str]:
        """The environments that the change must be deployed to."""
        return [stage.name for stage in self.stages if stage.affected]

    @public
    def repository(self) -> str:
        """The repository on GitHub, as `OWNER/NAME`."""
        return self.spec.repository

    @public
    def branch(self) -> str:
        """The branch that is delivered."""
        return self.spec.branch

    @public
    def environments(self) -> tuple[str, ...]:
        """The environments in delivery order."""
        return self.spec.names

    @public
    def previews(self) -> dict[str, Any] | None:
        """The previews of pull requests, and where they are deployed."""
        previews = self.spec.previews
        stages = {stage.name: stage for stage in self.stages}
        stage = stages.get(previews.environment) if previews else None
        if previews is None or stage is None:
            return None
        location = {"account": stage.account, "region": stage.region, "roles": stage.roles}
        return {**previews.model_dump(), **location}


def delivery(session: Session, *, since: str | None = None) -> DeliveryPlan:
    """Return the delivery order, and the environments that the change since a commit affects.

    Without a commit, every environment is affected. Makes no AWS call.
    """
    spec = require_delivery(session.project).record
    files = ProjectFiles(session.project)
    environments = [files.workspace(name).spec for name in spec.names]
    names = affected(spec, changed_since(session.project, since))
    return DeliveryPlan(spec, tuple(delivery_stages(spec, environments, names)))
