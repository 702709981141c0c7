"""The plan of an endpoint as plain data, stored with the endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.identity.scope import Scope
from tritonstack_local.sagemaker.hosting.capture import CapturePlan

LEAST_OUTSTANDING, RANDOM = "LEAST_OUTSTANDING_REQUESTS", "RANDOM"


@dataclass(frozen=True)
class Capacity:
    """The requested capacity of a variant."""

    instance_count: int
    weight: float


@dataclass(frozen=True)
class VariantRecord:
    """A production variant, as in DescribeEndpoint."""

    name: str
    image: str
    instance_type: str
    capacity: Capacity


@dataclass(frozen=True)
class DeploymentPlan:
    """The plan of one variant's servers."""

    scope: Scope
    endpoint: str
    variant: str
    image: str
    environment: Mapping[str, str]
    model_data_url: str | None
    """URL of the archive, or prefix of a multi-model server's archives."""
    download_timeout_s: float
    startup_timeout_s: float
    instance_type: str
    volume_gb: int | None
    """VolumeSizeInGB; None for SageMaker's default."""
    multi_model: bool = False
    model_cache: bool = True
    """Whether a multi-model server keeps models between requests."""
    capture: CapturePlan | None = None
    """Its data capture settings."""
    routing: str = RANDOM
    """The routing strategy."""

    @property
    def container(self) -> str:
        """The container's name in SageMaker's error messages."""
        return "model" if self.multi_model else "primary"


@dataclass(frozen=True)
class EndpointPlan:
    """The plan of an endpoint, independent of its configuration and models, which may be deleted."""

    scope: Scope
    endpoint: str
    config_name: str
    variants: tuple[VariantRecord, ...]
    deployments: tuple[DeploymentPlan, ...]
    data_capture: Mapping[str, Any] | None


def counts_of(variants: tuple[VariantRecord, ...]) -> dict[str, int]:
    """Return the requested instance count per variant."""
    return {variant.name: variant.capacity.instance_count for variant in variants}


def weights_of(variants: tuple[VariantRecord, ...]) -> dict[str, float]:
    """The weights of the variants."""
    return {variant.name: variant.capacity.weight for variant in variants}
