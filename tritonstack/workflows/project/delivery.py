"""Determine the delivery order, the roles, and the environments that a change affects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from tritonstack.base.results import Internal, Shown, public
from tritonstack.operations.delivery_routes import DeliveryStage, affected, changed_since, delivery_stages
from tritonstack.project.loading import ProjectFiles
from tritonstack.spec.environments.delivery import DeliverySpec, require_delivery
from tritonstack.workflows.session import Session


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
