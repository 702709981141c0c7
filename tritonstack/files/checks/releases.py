"""Check that an endpoint's kind and Triton release can serve a model's recipe."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import EndpointMismatchError, PackagesError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document
from tritonstack.facts.container_variables import GENERATING, INFERENCE_TYPE, SINCE
from tritonstack.files.endpoint.endpoint import EndpointSpec, MultiModelEndpoint
from tritonstack.files.model.backend_rules import OPENVINO_SINCE
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe, TreesRecipe
from tritonstack.files.project.workspace import EnvironmentFiles, ServedModel
from tritonstack.files.records.manifests import split_choice
from tritonstack.files.sources.contents import numpy_violations

CHECKPOINTS_SINCE = "24.03"
"""First release whose FIL backend reads treelite 4 checkpoints, the format of most tree models."""


def release_violations(
    workspace: EnvironmentFiles, endpoint: EndpointSpec, served: ServedModel
) -> Iterator[FileViolation]:
    """Yield models, including members, that an endpoint cannot serve."""
    yield from _generating_violations(workspace, endpoint, served)
    release = workspace.spec.release.name
    for name in workspace.made_of(served.model):
        yield from _python_violations(workspace, workspace.models[name])
        yield from _openvino_release_violations(workspace, served, name)
        recipe = workspace.models[name].record.recipe
        if isinstance(recipe, TreesRecipe) and not recipe.is_lightgbm and release < CHECKPOINTS_SINCE:
            yield workspace.environment.violation(
                EndpointMismatchError,
                served.place,
                f"FIL in Triton {release} cannot read treelite 4 checkpoints, the format of {name!r}",
                f"choose triton_release {CHECKPOINTS_SINCE} or later; LightGBM models can instead set "
                "`library: lightgbm` in recipe",
            )


def _openvino_release_violations(
    workspace: EnvironmentFiles, served: ServedModel, name: str
) -> Iterator[FileViolation]:
    """Yield bf16 models for CPUs on releases whose openvino backend loads only graphs of fixed sizes."""
    spec, release = workspace.models[name].record, workspace.spec.release.name
    artifact = workspace.artifact_for(served.model, served.instance)
    chosen, _ = split_choice(((artifact and artifact.choices) or {}).get(name, ""))
    if "bf16" not in (spec.precision, chosen) or spec.format != "onnx" or release >= OPENVINO_SINCE:
        return
    yield workspace.environment.violation(
        EndpointMismatchError,
        served.place,
        f"OpenVINO in Triton {release} loads no graphs with variable dimensions; {name!r} in bf16 runs in it",
        f"choose triton_release {OPENVINO_SINCE} or later, or another `precision`",
    )


def _python_violations(workspace: EnvironmentFiles, document: Document[ModelSpec]) -> Iterator[FileViolation]:
    """Yield packages for other Python versions, or with another NumPy, than the serving image's."""
    spec, recipe = workspace.spec, document.record.recipe
    if isinstance(recipe, PythonRecipe) and recipe.pythons and spec.python not in recipe.pythons:
        subject = f"Triton {spec.release.name} runs"
        if spec.python != spec.release.python:
            subject = "the local cloud's local server runs"
        yield document.violation(
            PackagesError,
            ("recipe", "pythons"),
            f"the packages are for Python {' and '.join(recipe.pythons)}, but {subject} Python {spec.python} "
            f"in environment {spec.name!r}",
            f'add "{spec.python}"',
        )
    if spec.served_by_image:
        yield from numpy_violations(document, release=spec.release.name, subject="the image")


def _generating_violations(
    workspace: EnvironmentFiles, endpoint: EndpointSpec, served: ServedModel
) -> Iterator[FileViolation]:
    """Check that decoupled models are called with `generate` or `generate_stream`."""
    document = workspace.models.get(served.model)
    if document is None or not document.record.decoupled:
        return
    streams = document.record.streams
    message = f"{served.model!r} streams its responses, but"
    release = workspace.spec.release.name
    inference_type = endpoint.environment.get(INFERENCE_TYPE)
    needs_vllm = document.record.recipe.kind == "vllm"
    if needs_vllm and endpoint.image is None:
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"{served.model!r} requires Triton's vLLM backend, which SageMaker's images do not have",
            "write `image: <folder of containers/>`, and base that image on NVIDIA's "
            f"tritonserver:{release}-vllm-python-py3",
        )
    if isinstance(endpoint, MultiModelEndpoint):
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"{message} multi-model endpoints return one response"
            f"{'; vLLM also requires one fixed path of its weights' if needs_vllm else ''}",
            "deploy it on its own endpoint (kind: single)",
        )
    elif streams and endpoint.asynchronous:
        yield workspace.environment.violation(
            EndpointMismatchError,
            (*served.place[:2], "asynchronous"),
            f"{message} an asynchronous endpoint stores one answer",
            "remove it",
        )
    elif release < SINCE[INFERENCE_TYPE]:
        yield workspace.environment.violation(
            EndpointMismatchError,
            served.place,
            f"{message} SageMaker's front end in Triton {release} rejects such models",
            f"choose triton_release {SINCE[INFERENCE_TYPE]} or later",
        )
    elif inference_type and inference_type not in (GENERATING[1:] if streams else GENERATING):
        yield workspace.environment.violation(
            EndpointMismatchError,
            (*served.place[:2], "environment", INFERENCE_TYPE),
            f"{message} {inference_type!r} requires one response",
            f"remove it (default: {GENERATING[1]!r})"
            if streams
            else f"remove it (default: {GENERATING[0]!r}), or write {GENERATING[1]!r}",
        )
