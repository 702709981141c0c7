"""All that is known of one environment on the road: from it the roles of those who carry changes are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.project.loading import load_instance, load_workspace, sample_instance
from tritonstack.spec.environments.delivery import DeliverySpec, require_delivery
from tritonstack.spec.environments.environment import EnvironmentSpec


@dataclass(frozen=True)
class Carried:
    """An environment, and what of the road leads to it and from it."""

    spec: EnvironmentSpec
    delivery: DeliverySpec
    makes_provider: bool
    """Whether this is the environment whose stack tells the account of GitHub's tokens."""
    source: EnvironmentSpec | None
    """What it is promoted from."""
    promoted_to: Sequence[EnvironmentSpec]
    """What is promoted from it."""
    preview: EnvironmentSpec | None
    """A preview, where previews stand beside this environment."""

    @property
    def base(self) -> str:
        """What the names of its roles begin with."""
        return self.spec.delivery_base


def carried_to(project: Project, environment: str) -> Carried:
    """All that the stack of one delivered environment is made from."""
    delivery = require_delivery(project).record
    if environment not in delivery.names:
        raise UsageError(
            f"{project.delivery_file.name} delivers no environment {environment!r}",
            remedy=f"it delivers: {', '.join(delivery.names)}",
        )
    specs = {name: load_workspace(project, name).spec for name in delivery.names}
    spec = specs[environment]
    known = spec.account in delivery.providers_exist
    first = next(name for name, other in specs.items() if other.account == spec.account)
    previews = delivery.previews
    beside = previews is not None and previews.environment == environment
    preview = load_instance(project, sample_instance(previews.template)).spec if previews and beside else None
    if preview is not None and preview.permissions_boundary is None:
        edge = naming.preview_boundary_name(spec.delivery_base)
        raise UsageError(
            "previews are not bounded: a pull request could make itself any role",
            remedy=f"add permissions_boundary: {edge} to their template",
        )
    sharing = [name for name, other in specs.items() if preview and preview.bootstrap == other.bootstrap]
    if sharing:
        raise UsageError(
            f"previews would publish to the bucket that deploys of {', '.join(sharing)} take from",
            remedy="add a bootstrap_qualifier of their own to their template",
        )
    return Carried(
        spec=spec,
        delivery=delivery,
        makes_provider=first == environment and not known,
        source=specs[spec.promotion.source] if spec.promotion else None,
        promoted_to=[
            other for other in specs.values() if other.promotion and other.promotion.source == environment
        ],
        preview=preview,
    )
