"""One endpoint, everything about it decided: the records that its stack is made from, and what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from catalog import images, naming
from catalog.endpoints import EndpointSpec
from catalog.environments import EnvironmentSpec
from catalog.errors import FileProblem
from catalog.locks import LockedArtifact
from catalog.manifests import ARCHIVE_NAME
from catalog.models import ModelSpec
from catalog.workspace import Workspace

VARIANT = "main"
"""The one variant of an endpoint. Never renamed: rollouts and scaling refer to it."""

SMALLEST_VOLUME_GB = 30
LARGEST_VOLUME_GB = 512
_SPARE_GB = 10
_GB = 1024**3


@dataclass(frozen=True)
class EndpointDeployment:
    """An endpoint whose model has an artifact."""

    environment: EnvironmentSpec
    name: str
    endpoint: EndpointSpec
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
    def scales(self) -> bool:
        """Whether the number of machines follows the load; one that is fixed needs no scaling.

        SageMaker refuses to change the instance type of what is registered for scaling: fixing the number
        first, in a deploy of its own, is the way to another type.
        """
        scaling = self.endpoint.scaling
        return scaling.min_instances < scaling.max_instances

    @property
    def volume_gb(self) -> int:
        """What the archive, its unpacked files and Triton's copy of them (execution environments) fill."""
        needed = self.artifact.archive_bytes + 2 * self.artifact.unpacked_bytes
        return max(SMALLEST_VOLUME_GB, math.ceil(needed / _GB) + _SPARE_GB)


def plan_deployment(workspace: Workspace, name: str) -> EndpointDeployment | FileProblem:
    """What an endpoint's stack is made from, or why there cannot be one yet."""
    problem = workspace.unbuilt(name)
    if problem is not None:
        return problem
    endpoint = workspace.spec.endpoints[name]
    # unbuilt() has answered for every endpoint without one.
    artifact = cast("LockedArtifact", workspace.artifact_of(endpoint))
    deployment = EndpointDeployment(workspace.spec, name, endpoint, workspace.model_of(endpoint), artifact)
    return _too_large(workspace, deployment) or deployment


def _too_large(workspace: Workspace, deployment: EndpointDeployment) -> FileProblem | None:
    if deployment.has_local_storage or deployment.volume_gb <= LARGEST_VOLUME_GB:
        return None
    return workspace.environment.problem(
        ("endpoints", deployment.name, "instance_type"),
        f"the artifact needs a volume of {deployment.volume_gb} GB, SageMaker attaches at most "
        f"{LARGEST_VOLUME_GB} GB",
        remedy="choose an instance type with disks of its own, such as ml.m5d.24xlarge or ml.g5.48xlarge",
    )
