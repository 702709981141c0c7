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
    """What is asked of a variant."""

    instance_count: int
    weight: float


@dataclass(frozen=True)
class VariantRecord:
    """A production variant as DescribeEndpoint shows it."""

    name: str
    image: str
    instance_type: str
    capacity: Capacity


@dataclass(frozen=True)
class DeploymentPlan:
    """What the servers of one variant are started for."""

    scope: Scope
    endpoint: str
    variant: str
    image: str
    environment: Mapping[str, str]
    model_data_url: str | None
    """The archive, or the prefix below which a multi-model server finds its archives."""
    download_timeout_s: float
    startup_timeout_s: float
    instance_type: str
    volume_gb: int | None
    """VolumeSizeInGB, None where the variant leaves it to SageMaker."""
    multi_model: bool = False
    model_cache: bool = True
    """Whether a multi-model server keeps models between requests."""
    capture: CapturePlan | None = None
    """What is kept of its requests and answers."""
    routing: str = RANDOM
    """How requests find their instance."""

    @property
    def container(self) -> str:
        """What SageMaker calls the container when it tells of its errors."""
        return "model" if self.multi_model else "primary"


@dataclass(frozen=True)
class EndpointPlan:
    """All that an endpoint is to run; its configuration and models may go while it does."""

    scope: Scope
    endpoint: str
    config_name: str
    variants: tuple[VariantRecord, ...]
    deployments: tuple[DeploymentPlan, ...]
    data_capture: Mapping[str, Any] | None


def counts_of(variants: tuple[VariantRecord, ...]) -> dict[str, int]:
    """Return how many instances each variant is to have."""
    return {variant.name: variant.capacity.instance_count for variant in variants}


def weights_of(variants: tuple[VariantRecord, ...]) -> dict[str, float]:
    """How traffic is to be split."""
    return {variant.name: variant.capacity.weight for variant in variants}
