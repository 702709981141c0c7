"""Resolve one endpoint's options, artifacts, and instances to the values of its stack."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import cast

from tritonstack.base import naming
from tritonstack.base.error_kinds import InstanceTypeError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import FieldPath
from tritonstack.constructs.model_data import ModelArchive, ModelPrefix, TritonImage
from tritonstack.facts.hardware import InstanceType
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.endpoint.endpoint import MAIN, EndpointSpec, MultiModelEndpoint, Variant
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.project.custom_images import locked_uri
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.records.manifests import ARCHIVE_NAME

LARGEST_VOLUME_GB = 512
_SMALLEST_VOLUME_GB = 30
_SPARE_GB = 10
_GB = 1024**3
_VOLUME_STEPS_GB = (32, 64, 128, 256, LARGEST_VOLUME_GB)

_FETCHING_BYTES_PER_S = 25_000_000
"""Download rate of the archive. An instance downloads and unpacks it in one stream on one core while it pulls
a container image of many gigabytes: about a fifth of the volume's 125 MB/s write rate."""
_LOADING_BYTES_PER_S = 10_000_000
"""Load rate of the unpacked files. A model with a 2 GB Python environment needed up to ten minutes to become
healthy: the environment is unpacked again, then imported."""
_STARTING_S = 300
"""Startup time of instance and server without a model. A timeout that is too long delays the failure of an
update; one that is too short fails a healthy update."""
_STEP_S = 60
_LONGEST_S = 3600
"""The longest timeout that SageMaker accepts."""


def gib(size_bytes: int) -> float:
    """Convert bytes to GiB."""
    return size_bytes / _GB


def needed_gb(artifact: LockedArtifact) -> int:
    """Return the disk space for the archive, its unpacked files, and Triton's copy of them (execution
    environments)."""
    return math.ceil(_filled(artifact) / _GB) + _SPARE_GB


def volume_gb(artifact: LockedArtifact) -> int:
    """Return the volume size of an instance that serves one artifact."""
    return max(_SMALLEST_VOLUME_GB, needed_gb(artifact))


def multi_model_volume_gb(artifacts: Iterable[LockedArtifact]) -> int:
    """Return the volume size of a multi-model instance, in steps, so that adding a model rarely changes it.

    SageMaker evicts models from a full disk and fetches them again on demand.
    """
    needed = math.ceil(sum(map(_filled, artifacts)) / _GB) + _SPARE_GB
    too_small = takewhile(lambda step: step < needed, _VOLUME_STEPS_GB[:-1])
    return _VOLUME_STEPS_GB[len(list(too_small))]


def download_timeout_s(artifact: LockedArtifact) -> int:
    """Return the download timeout of an artifact."""
    return _rounded(artifact.archive_bytes / _FETCHING_BYTES_PER_S)


def startup_timeout_s(artifact: LockedArtifact | None) -> int:
    """Return the startup timeout of a container; without an artifact, it loads nothing at startup."""
    return _rounded(artifact.unpacked_bytes / _LOADING_BYTES_PER_S if artifact else 0)


def memory_bytes(artifact: LockedArtifact) -> int:
    """Return the minimum memory: the artifact's files, the graphs that further instances load again, and the
    shared memory of its Python models."""
    return artifact.unpacked_bytes + (artifact.copies_bytes or 0) + (artifact.shared_memory_bytes or 0)


def _filled(artifact: LockedArtifact) -> int:
    return artifact.archive_bytes + 2 * artifact.unpacked_bytes


def _rounded(seconds: float) -> int:
    steps = math.ceil((_STARTING_S + seconds) / _STEP_S)
    return min(steps * _STEP_S, _LONGEST_S)


@dataclass(frozen=True)
class VariantDeployment:
    """One variant whose models all have artifacts."""

    spec: Variant
    data: ModelArchive | ModelPrefix
    image: TritonImage
    volume_gb: int
    startup_timeout_s: int
    download_timeout_s: int | None
    price_per_hour: float | None


@dataclass(frozen=True)
class EndpointDeployment:
    """An endpoint whose models all have artifacts."""

    environment: EnvironmentSpec
    name: str
    endpoint: EndpointSpec
    variants: tuple[VariantDeployment, ...]
    target_models: Mapping[str, str]
    """The TargetModel of each model; empty unless the endpoint is multi-model."""

    @property
    def endpoint_name(self) -> str:
        """Return the endpoint name for InvokeEndpoint."""
        return self.environment.endpoint_name(self.name)


def plan_deployment(workspace: Workspace, name: str) -> EndpointDeployment | list[FileViolation]:
    """Return the stack's values, or the reasons why there are none yet."""
    violations = unbuilt(workspace, name) or list(_too_large(workspace, name))
    if violations:
        return violations
    endpoint = workspace.spec.endpoints[name]
    variants = tuple(_planned(workspace, name, variant) for variant in endpoint.variants)
    return EndpointDeployment(workspace.spec, name, endpoint, variants, workspace.target_models(name))


def _planned(workspace: Workspace, name: str, variant: Variant) -> VariantDeployment:
    spec, endpoint = workspace.spec, workspace.spec.endpoints[name]
    image = TritonImage(spec.triton_release, variant.instance.name, _own_image(workspace, name, variant))
    price = spec.prices.get(variant.instance.name)
    if isinstance(endpoint, MultiModelEndpoint):
        artifacts = [_artifact(workspace, model, variant) for model in endpoint.models]
        shared_prefix = naming.multi_model_prefix(spec.endpoint_name(name))
        return VariantDeployment(
            spec=variant,
            data=ModelPrefix(
                f"s3://{spec.artifact_bucket}/{shared_prefix}",
                cache=endpoint.model_cache,
                keeps_answers=any(map(workspace.keeps_answers, endpoint.models)),
                graphs_decide_threads=any(artifact.graphs_decide_threads for artifact in artifacts),
                least_threads=max((artifact.least_threads or 0 for artifact in artifacts), default=0),
            ),
            image=image,
            volume_gb=multi_model_volume_gb(artifacts),
            # Models are fetched and loaded on demand, so no values depend on them.
            startup_timeout_s=startup_timeout_s(None),
            download_timeout_s=None,
            price_per_hour=price,
        )
    model = variant.model or endpoint.model
    artifact = _artifact(workspace, model, variant)
    prefix = naming.artifact_prefix(model, artifact.digest)
    return VariantDeployment(
        spec=variant,
        data=ModelArchive(
            f"s3://{spec.artifact_bucket}/{prefix}/{ARCHIVE_NAME}",
            entry_model=model,
            # An endpoint that is rolled back may serve a model that it no longer names.
            versions_prefix=naming.MODELS,
            keeps_answers=workspace.keeps_answers(model),
            generates=workspace.models[model].record.generates,
            streams=workspace.models[model].record.streams,
            instances=artifact.instances or 1,
            graphs_decide_threads=bool(artifact.graphs_decide_threads),
            least_threads=artifact.least_threads or 0,
        ),
        image=image,
        volume_gb=volume_gb(artifact),
        startup_timeout_s=startup_timeout_s(artifact),
        download_timeout_s=download_timeout_s(artifact),
        price_per_hour=price,
    )


def _own_image(workspace: Workspace, name: str, variant: Variant) -> str | None:
    locked = workspace.image_for(name, variant.instance)
    return locked_uri(workspace.spec, locked) if locked else None


def _artifact(workspace: Workspace, model: str, variant: Variant) -> LockedArtifact:
    # unbuilt() has already reported endpoints without an artifact.
    return cast("LockedArtifact", workspace.artifact_for(model, variant.instance))


def _too_large(workspace: Workspace, name: str) -> Iterator[FileViolation]:
    """Report artifacts that exceed an instance's disk or memory."""
    endpoint = workspace.spec.endpoints[name]
    for variant in endpoint.variants:
        place: FieldPath = ("endpoints", name, "instance_type")
        if variant.name != MAIN:
            place = ("endpoints", name, variant.name, "instance_type")
        models = endpoint.models if variant.model is None else (variant.model,)
        for model in models:
            for message, remedy in _misfits(variant.instance, _artifact(workspace, model, variant)):
                yield workspace.environment.violation(
                    InstanceTypeError, place, f"the artifact of {model!r} {message}", remedy
                )


def _misfits(instance: InstanceType, artifact: LockedArtifact) -> Iterator[tuple[str, str]]:
    """Return what exceeds the instance's limits, and the remedy."""
    needed = needed_gb(artifact)
    if not instance.family.local_storage and needed > LARGEST_VOLUME_GB:
        yield (
            f"needs a volume of {needed} GB; SageMaker attaches at most {LARGEST_VOLUME_GB} GB",
            "choose an instance type with local disks, such as ml.m5d.24xlarge or ml.g5.48xlarge",
        )
    memory = gib(memory_bytes(artifact))
    if memory > instance.memory_gib:
        yield (
            f"needs {memory:.0f} GiB of memory; {instance.name} has {instance.memory_gib:g} GiB",
            "choose a larger instance type",
        )
