"""One endpoint, everything about it decided: the records that its stack is made from, and what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from catalog import images, naming
from catalog.endpoints import SingleEndpoint
from catalog.environments import EnvironmentSpec
from catalog.errors import FileProblem
from catalog.locks import LockedArtifact
from catalog.manifests import ARCHIVE_NAME
from catalog.models import ModelSpec
from catalog.workspace import Workspace
from stacks.watched import Watched, WatchedVariant

SMALLEST_VOLUME_GB = 30
LARGEST_VOLUME_GB = 512
_SPARE_GB = 10
_GB = 1024**3


@dataclass(frozen=True)
class EndpointDeployment:
    """An endpoint whose model has an artifact."""

    environment: EnvironmentSpec
    name: str
    endpoint: SingleEndpoint
    model: ModelSpec
    artifact: LockedArtifact

    @property
    def endpoint_name(self) -> str:
        """What callers of InvokeEndpoint say."""
        return self.environment.endpoint_name(self.name)

    @property
    def log_group_name(self) -> str:
        """Where SageMaker writes the containers' log."""
        return naming.endpoint_log_group(self.endpoint_name)

    @property
    def image_uri(self) -> str:
        """SageMaker's Triton image of the environment's release."""
        return images.image_uri(
            region=self.environment.region,
            release=self.environment.triton_release,
            gpu=self.endpoint.instance.family.accelerator == "gpu",
        )

    @property
    def artifact_url(self) -> str:
        """The archive that the endpoint serves."""
        prefix = naming.artifact_prefix(self.model.name, self.artifact.digest)
        return f"s3://{self.environment.artifact_bucket}/{prefix}/{ARCHIVE_NAME}"

    @property
    def model_prefix(self) -> str:
        """All versions of the endpoint's model in the bucket."""
        return naming.artifact_prefix(self.model.name, "")

    @property
    def has_local_storage(self) -> bool:
        """SageMaker takes neither a volume size nor a volume key for machines with disks of their own."""
        return self.endpoint.instance.family.local_storage

    @property
    def watched(self) -> Watched:
        """How metrics and scaling name it."""
        variants = tuple(
            WatchedVariant(
                name=variant.name,
                instance=variant.instance,
                scaling=variant.scaling,
                shadow=variant.shadow,
                price_per_hour=self.environment.prices.get(variant.instance.name),
            )
            for variant in self.endpoint.variants
        )
        return Watched(self.endpoint_name, variants, log_group_name=self.log_group_name)

    @property
    def volume_gb(self) -> int:
        """What the archive, its unpacked files and Triton's copy of them (execution environments) fill."""
        needed = self.artifact.archive_bytes + 2 * self.artifact.unpacked_bytes
        return max(SMALLEST_VOLUME_GB, math.ceil(needed / _GB) + _SPARE_GB)


def plan_deployment(workspace: Workspace, name: str) -> EndpointDeployment | list[FileProblem]:
    """What an endpoint's stack is made from, or why there cannot be one yet."""
    problems = workspace.unbuilt(name)
    if problems:
        return problems
    endpoint = cast("SingleEndpoint", workspace.spec.endpoints[name])
    # unbuilt() has answered for every endpoint without one.
    artifact = cast("LockedArtifact", workspace.artifact_for(endpoint.model, endpoint.instance))
    model = workspace.models[endpoint.model].record
    deployment = EndpointDeployment(workspace.spec, name, endpoint, model, artifact)
    too_large = _too_large(workspace, deployment)
    return [too_large] if too_large else deployment


def _too_large(workspace: Workspace, deployment: EndpointDeployment) -> FileProblem | None:
    if deployment.has_local_storage or deployment.volume_gb <= LARGEST_VOLUME_GB:
        return None
    return workspace.environment.problem(
        ("endpoints", deployment.name, "instance_type"),
        f"the artifact needs a volume of {deployment.volume_gb} GB, SageMaker attaches at most "
        f"{LARGEST_VOLUME_GB} GB",
        remedy="choose an instance type with disks of its own, such as ml.m5d.24xlarge or ml.g5.48xlarge",
    )
