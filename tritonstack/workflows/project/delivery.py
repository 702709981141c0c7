"""Determine the delivery order, the roles, and the environments that a change affects."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tritonstack.operations.delivery_routes import DeliveryStage, affected, changed_since, delivery_stages
from tritonstack.project.loading import load_workspace
from tritonstack.spec.environments.delivery import DeliverySpec, require_delivery
from tritonstack.workflows.session import Session


@dataclass(frozen=True)
class DeliveryPlan:
    """How a change reaches the environments of a project."""

    spec: DeliverySpec
    stages: tuple[DeliveryStage, ...]
    """In delivery order."""

    @property
    def affected(self) -> list[str]:
        """The environments that the change must be deployed to."""
        return [stage.name for stage in self.stages if stage.affected]

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "repository": self.spec.repository,
            "branch": self.spec.branch,
            "environments": list(self.spec.names),
            "affected": self.affected,
            "stages": {stage.name: asdict(stage) for stage in self.stages},
            "previews": self._previews(),
        }

    def _previews(self) -> dict[str, Any] | None:
        previews = self.spec.previews
        stage = next((one for one in self.stages if previews and one.name == previews.environment), None)
        if previews is None or stage is None:
            return None
        location = {"account": stage.account, "region": stage.region, "roles": stage.roles}
        return {**previews.model_dump(), **location}


def delivery(session: Session, *, since: str | None = None) -> DeliveryPlan:
    """Return the delivery order, and the environments that the change since a commit affects.

    Without a commit, every environment is affected. Makes no AWS call.
    """
    spec = require_delivery(session.project).record
    environments = [load_workspace(session.project, name).spec for name in spec.names]
    names = affected(spec, changed_since(session.project, since))
    return DeliveryPlan(spec, tuple(delivery_stages(spec, environments, names)))
