"""Collect what the delivery roles of one environment are created from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonstack.base import naming
from tritonstack.base.error_kinds import DeliveryError, UnknownNameError
from tritonstack.base.paths import Project
from tritonstack.files.environment.delivery import DeliverySpec, require_delivery
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles, sample_instance


@dataclass(frozen=True)
class DeliveryTarget:
    """An environment and its neighbors in the delivery order."""

    spec: EnvironmentSpec
    delivery: DeliverySpec
    makes_provider: bool
    """Whether this environment's stack creates the account's GitHub OIDC provider."""
    source: EnvironmentSpec | None
    """The environment that it is promoted from."""
    promoted_to: Sequence[EnvironmentSpec]
    """The environments that are promoted from it."""
    preview: EnvironmentSpec | None
    """A sample preview, if previews run next to this environment."""

    @property
    def base(self) -> str:
        """Return the prefix of its role names."""
        return self.spec.delivery_base


def delivery_target(project: Project, environment: str) -> DeliveryTarget:
    """Collect the inputs of one environment's delivery stack."""
    delivery = require_delivery(project).record
    if environment not in delivery.names:
        raise UnknownNameError(
            f"environment {environment!r} is not in {project.delivery_file.name}",
            remedy=f"choose one of: {', '.join(delivery.names)}",
        )
    files = ProjectFiles(project)
    specs = {name: files.workspace(name).spec for name in delivery.names}
    spec = specs[environment]
    has_provider = spec.account in delivery.providers_exist
    first_in_account = next(name for name, other in specs.items() if other.account == spec.account)
    previews = delivery.previews
    has_previews = previews is not None and previews.environment == environment
    preview = files.instance(sample_instance(previews.template)).spec if previews and has_previews else None
    if preview is not None and preview.permissions_boundary is None:
        boundary = naming.preview_boundary_name(spec.delivery_base)
        raise DeliveryError(
            "previews have no permissions boundary: a pull request could create a role with any permission",
            remedy=f"add `permissions_boundary: {boundary}` to the preview template",
        )
    sharing = [name for name, other in specs.items() if preview and preview.bootstrap == other.bootstrap]
    if sharing:
        raise DeliveryError(
            f"previews would share the bootstrap bucket that deployments of {', '.join(sharing)} read from",
            remedy="set a separate `bootstrap_qualifier` in the preview template",
        )
    return DeliveryTarget(
        spec=spec,
        delivery=delivery,
        makes_provider=first_in_account == environment and not has_provider,
        source=specs[spec.promotion.source] if spec.promotion else None,
        promoted_to=[
            other for other in specs.values() if other.promotion and other.promotion.source == environment
        ],
        preview=preview,
    )
