"""Check that files fit together: model, instance type, Triton release, host driver, region, lock.

`environment_violations` checks the files people write, for all commands. `unbuilt` checks the lock, for
deployments: a build fixes what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tritonstack.base.error_kinds import (
    EndpointMismatchError,
    InstanceTypeError,
    OutdatedArtifactError,
    RegionError,
    UnbuiltArtifactError,
)
from tritonstack.base.errors import FileViolation, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.yaml import Document, FieldPath, suggest
from tritonstack.facts.container_variables import ADDITIONAL_ARGS, unread_variables
from tritonstack.facts.drivers import ami_violation, cuda_violation
from tritonstack.facts.hardware import FAMILIES, InstanceType
from tritonstack.facts.regions import unoffered
from tritonstack.facts.releases import TritonRelease
from tritonstack.facts.targets import hardware_of, release_of
from tritonstack.files.checks.precision import precision_violations
from tritonstack.files.checks.releases import release_violations
from tritonstack.files.endpoint.endpoint import EndpointSpec, MultiModelEndpoint, SingleEndpoint, Variant
from tritonstack.files.endpoint.rules import RuledEndpoint
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import EnsembleRecipe
from tritonstack.files.project.build_machines import build_machine_for, build_remedy
from tritonstack.files.project.custom_images import endpoint_image, image_folders
from tritonstack.files.project.workspace import EnvironmentFiles, ServedModel, Workspace
from tritonstack.files.records.locks import LockedArtifact
from tritonstack.files.sources.model_hashes import ModelHash, only_builder_changed

MIB = 1024**2
REAL_TIME_BYTES = 25 * MIB
"""SageMaker's payload limit for real-time endpoints, request and response."""
ASYNCHRONOUS_BYTES = 1024 * MIB
"""SageMaker's payload limit for asynchronous endpoints."""
TRITON_INPUT_BYTES = 64 * MIB
_TRITON_INPUT_SINCE = "26.03"
_TRITON_INPUT_OPTION = "--http-max-input-size"
"""Triton's own request limit, the releases whose SageMaker front end applies it, and the option to raise
it."""


def environment_violations(
    workspace: EnvironmentFiles, name: str, hashes: Mapping[str, ModelHash]
) -> Iterator[FileViolation]:
    """Yield contradictions between the files of an endpoint; `hashes` are those of its valid models."""
    endpoint = workspace.spec.endpoints[name]
    ruled = RuledEndpoint(endpoint, endpoint.variants)
    for variant in endpoint.variants:
        place = ("endpoints", name, *ruled.instance_path(variant))
        unfit = [
            *_unfit_hardware(workspace, variant.instance, place),
            *_not_offered(workspace, variant.instance, place),
        ]
        yield from unfit or _unbuildable(workspace, name, variant, place)
    yield from _unfit_host(workspace, name, endpoint)
    yield from _no_such_image(workspace, name, endpoint)
    yield from _unfit_layouts(workspace, name, endpoint)
    for served in workspace.serves(name):
        if model_hash := hashes.get(served.model):
            yield from _too_heavy(workspace, endpoint, served, model_hash)
        yield from precision_violations(workspace, endpoint, served)
        yield from release_violations(workspace, endpoint, served)
    for violation in unread_variables(endpoint.environment, workspace.spec.release):
        yield workspace.environment.place(
            replace(violation, path=("endpoints", name, "environment", *violation.path))
        )


def unbuilt(workspace: Workspace, *names: str) -> list[FileViolation]:
    """Return what prevents the deployment of endpoints; all endpoints if none is named.

    That is: missing or outdated lock entries, and manual edits. A model of several endpoints is reported
    once.
    """
    endpoints = names or tuple(workspace.spec.endpoints)
    return list(
        dict.fromkeys(
            violation
            for name in endpoints
            for violations in (_artifact_violations(workspace, name), _image_violations(workspace, name))
            for violation in violations
        )
    )


def _artifact_violations(workspace: Workspace, name: str) -> Iterator[FileViolation]:
    """Yield missing, outdated, or unusable artifacts of one endpoint."""
    for served in workspace.serves(name):
        artifact = workspace.artifact_for(served.model, served.instance)
        if artifact is None:
            yield _missing(workspace, served)
            continue
        yield from _stale(workspace, served.model, artifact)
        yield from _foreign_engine(workspace, served, artifact)


def _image_violations(workspace: Workspace, name: str) -> Iterator[FileViolation]:
    """Yield a missing or outdated custom image of an endpoint."""
    spec, endpoint = workspace.spec, workspace.spec.endpoints[name]
    if endpoint.image is None:
        return
    for gpu in sorted({bool(variant.instance.gpus) for variant in endpoint.variants}):
        image = endpoint_image(workspace.project, spec, endpoint.image, gpu=gpu)
        locked = workspace.lock.record.images.get(endpoint.image, {}).get("gpu" if gpu else "cpu")
        if locked is None:
            yield workspace.environment.violation(
                UnbuiltArtifactError,
                ("endpoints", name, "image"),
                f"{workspace.lock.file.name} has no image {endpoint.image!r} for {image.kind}",
                _lock_again(workspace),
            )
            continue
        if not locked.serves_for(image.tag):
            yield workspace.lock.violation(
                OutdatedArtifactError,
                ("images", endpoint.image, image.kind),
                f"locked image {locked.tag} was built from another version of "
                f"containers/{endpoint.image} or another SageMaker image",
                _lock_again(workspace),
            )


def _no_such_image(workspace: EnvironmentFiles, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    folders = image_folders(workspace.project)
    if endpoint.image is None or endpoint.image in folders:
        return
    yield workspace.environment.violation(
        EndpointMismatchError,
        ("endpoints", name, "image"),
        f"containers/{endpoint.image} has no Dockerfile for serving images",
        suggest(endpoint.image, folders, f"available: {', '.join(folders) or 'none'}"),
    )


def _unfit_hardware(
    workspace: EnvironmentFiles, instance: InstanceType, place: FieldPath
) -> Iterator[FileViolation]:
    capability, release = instance.family.compute_capability, workspace.spec.release
    if capability and float(capability) < float(release.min_compute_capability):
        yield workspace.environment.violation(
            InstanceTypeError,
            place,
            f"{instance.name} has compute capability {capability}, but Triton {release.name} needs "
            f"{release.min_compute_capability}",
            "choose a newer GPU, or an older triton_release",
        )
    violation = cuda_violation(instance, release)
    if violation:
        yield workspace.environment.violation(
            InstanceTypeError, place, violation, "choose a newer triton_release, or an older GPU"
        )


def _unbuildable(
    workspace: EnvironmentFiles, name: str, variant: Variant, place: FieldPath
) -> Iterator[FileViolation]:
    """Yield models that need a GPU without a build machine."""
    spec, instance = workspace.spec, variant.instance
    models = (variant.model,) if variant.model else spec.endpoints[name].models
    needed = instance.gpus and any(
        "gpu" in workspace.builds_for(model) for model in models if model in workspace.models
    )
    if needed and build_machine_for(spec, instance) is None:
        yield workspace.environment.violation(
            RegionError,
            place,
            f"models for {instance.name} must be built on its GPU, {instance.family.gpu}, but neither "
            f"CodeBuild nor SageMaker Processing offers it in {spec.region}",
            build_remedy(spec, instance),
        )


def _not_offered(
    workspace: EnvironmentFiles, instance: InstanceType, place: FieldPath
) -> Iterator[FileViolation]:
    """Check AWS's price list, which is available offline; a price in the file overrides it."""
    violation = unoffered(workspace.spec.region, instance)
    if violation is None or instance.name in workspace.spec.prices:
        return
    message, offer = violation
    yield workspace.environment.violation(
        RegionError, place, message, f"{offer}; if AWS has added them, set the price under `prices`"
    )


def _unfit_host(workspace: EnvironmentFiles, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    if endpoint.inference_ami is None:
        return
    for variant in endpoint.variants:
        violation = ami_violation(endpoint.inference_ami, variant.instance, workspace.spec.release)
        if violation:
            message, remedy = violation
            yield workspace.environment.violation(
                InstanceTypeError, ("endpoints", name, "inference_ami"), message, remedy
            )


def _unfit_layouts(workspace: EnvironmentFiles, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    """Yield layouts that do not match `kind`; multi-model endpoints accept both."""
    if isinstance(endpoint, MultiModelEndpoint):
        return
    for served in workspace.serves(name):
        model = workspace.models.get(served.model)
        if model is None or model.record.layout == endpoint.kind:
            continue
        layouts = {"single": "one Triton model", "ensemble": "a pipeline of Triton models"}
        layout = model.record.layout
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"the recipe of {served.model!r} builds {layouts[layout]}, but kind: {endpoint.kind} serves "
            f"{layouts[endpoint.kind]}",
            f"write `kind: {layout}`{_other_layout(model)}",
        )


def _other_layout(model: Document[ModelSpec]) -> str:
    """Return what a model's file could change to get the other layout; nothing for most recipes."""
    recipe, file = model.record.recipe, shown_path(model.file)
    if model.record.members and not isinstance(recipe, EnsembleRecipe):
        return f", or remove `recipe.calls` in {file}"
    return f", or change `recipe.input` in {file}" if "input" in type(recipe).model_fields else ""


def _missing(workspace: Workspace, served: ServedModel) -> FileViolation:
    spec, lock = workspace.spec, workspace.lock
    targets = " or ".join(reversed(spec.acceptable_targets(served.instance)))
    artifacts = lock.record.models.get(served.model, {})
    others = "; ".join(f"{target} is built for {described_target(target)}" for target in sorted(artifacts))
    reason = f" ({others}; {served.instance.name} has {described_gpu(served.instance)})" if others else ""
    return workspace.environment.violation(
        UnbuiltArtifactError,
        served.place,
        f"{lock.file.name} has no artifact of {served.model!r} for {targets}{reason}",
        _lock_again(workspace),
    )


def described_target(target: str) -> str:
    """Describe a target: `T4 under Triton 24.09`."""
    hardware, release = hardware_of(target), release_of(target)
    python = re.search(r"-py3(\d+)$", target)
    text = "CPUs"
    if release:
        gpus = sorted({f"{family.gpu}" for family in FAMILIES.values() if family.hardware == hardware})
        text = f"{' or '.join(gpus) or hardware} under Triton {release}"
    return f"{text} with Python 3.{python[1]}" if python else text


def described_gpu(instance: InstanceType) -> str:
    """Describe an instance type's GPU."""
    family = instance.family
    return f"{family.gpu}, compute capability {family.compute_capability}" if family.gpu else "no GPU"


def _lock_again(workspace: Workspace) -> str:
    return f"run `{workspace.lock_command}` and commit {workspace.lock.file.name}"


def _stale(workspace: Workspace, model: str, artifact: LockedArtifact) -> Iterator[FileViolation]:
    document = workspace.models.get(model)
    if document is not None and _is_outdated(artifact, workspace.model_hashes[model]):
        yield workspace.lock.violation(
            OutdatedArtifactError,
            ("models", model),
            f"locked artifact {short_digest(artifact.digest)} was built from another version of "
            f"{shown_path(document.file)}",
            _lock_again(workspace),
        )


def _is_outdated(artifact: LockedArtifact, now: ModelHash) -> bool:
    """Return whether an artifact was built from other files; a new version of the builder does not count."""
    return not (artifact.serves_for(now.value) or only_builder_changed(artifact.built_from, now.parts))


def _foreign_engine(
    workspace: Workspace, served: ServedModel, artifact: LockedArtifact
) -> Iterator[FileViolation]:
    """Yield engines that the release's TensorRT cannot run: an engine needs the version that built it."""
    if artifact.tensorrt is None:
        return
    release = workspace.spec.release
    target = workspace.target_for(served.model, served.instance)
    place = ("models", served.model, str(target), "tensorrt")
    if not served.instance.gpus:
        yield workspace.lock.violation(
            OutdatedArtifactError,
            place,
            f"{short_digest(artifact.digest)} contains TensorRT engines, "
            f"but {served.instance.name} has no GPU",
            _lock_again(workspace),
        )
    elif not _same_version(artifact.tensorrt, release):
        yield workspace.lock.violation(
            OutdatedArtifactError,
            place,
            f"the engines of {short_digest(artifact.digest)} were built with TensorRT {artifact.tensorrt}, "
            f"but Triton {release.name} has {release.tensorrt}, which cannot run them",
            _lock_again(workspace),
        )


def _same_version(tensorrt: str, release: TritonRelease) -> bool:
    """Compare versions: 10.9.0.34 equals 10.9.0; the fourth number belongs to the package."""
    return tensorrt.split(".")[:3] == release.tensorrt.split(".")[:3]


def _too_heavy(
    workspace: EnvironmentFiles, endpoint: EndpointSpec, served: ServedModel, model_hash: ModelHash
) -> Iterator[FileViolation]:
    """Yield models whose single requests or responses exceed payload limits; old artifacts have no size."""
    artifact = workspace.artifact_for(served.model, served.instance)
    if artifact is None or artifact.item_bytes is None:
        return
    if _is_outdated(artifact, model_hash):
        return
    weight, release = artifact.item_bytes, workspace.spec.release
    limit = ASYNCHRONOUS_BYTES if endpoint.asynchronous else REAL_TIME_BYTES
    weighs = f"one request or response of {served.model!r} has {_mib(weight)}, but"
    if weight > limit:
        queue = isinstance(endpoint, SingleEndpoint) and weight <= ASYNCHRONOUS_BYTES
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"{weighs} SageMaker accepts at most "
            f"{_mib(limit)}{'' if endpoint.asynchronous else ' in real time'}",
            f"add `asynchronous: {{}}`, which accepts {_mib(ASYNCHRONOUS_BYTES)}"
            if queue
            else "pass object names in requests, and let the model read the objects from its bucket",
        )
    elif weight > _triton_limit(release, endpoint):
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"{weighs} Triton {release.name} accepts at most {_mib(_triton_limit(release, endpoint))}",
            f'add `{ADDITIONAL_ARGS}: "{_TRITON_INPUT_OPTION}={weight}"` to environment',
        )


def _triton_limit(release: TritonRelease, endpoint: EndpointSpec) -> int:
    """Return the request limit of the release's front end; earlier releases have none."""
    if release.name < _TRITON_INPUT_SINCE:
        return ASYNCHRONOUS_BYTES
    arguments = endpoint.environment.get(ADDITIONAL_ARGS, "")
    match = re.search(rf"{_TRITON_INPUT_OPTION}[= ](\d+)", arguments)
    return int(match[1]) if match else TRITON_INPUT_BYTES


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
