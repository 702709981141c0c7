"""What a model needs: Triton backends, a Python, and the tools that decide its artifact's bytes."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Mapping

from model_build.environments.wheels import fetched_versions
from model_build.recipes import recipe_for
from tritonstack.base.error_kinds import MissingProgramError, PackagesError
from tritonstack.base.errors import FileViolation, UsageError, reject
from tritonstack.base.yaml import Document
from tritonstack.files.model.backend_rules import OPENVINO, openvino_violations
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.recipes import PythonRecipe
from tritonstack.files.model.tensorrt import VERSION_COMPATIBLE
from tritonstack.files.sources.contents import numpy_violations
from tritonstack.triton import TritonInstallation

COMMON_TOOLS = ("isal", "protobuf")
"""Tools that pack every archive."""


def tools_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> dict[str, str]:
    """Return the packages, with versions, that decide the artifact bytes of a model and its members."""
    tools = set(COMMON_TOOLS).union(*(recipe_for(models[part]).tools for part in _parts(name, models)))
    fetched = fetched_versions()
    return {tool: fetched.get(tool) or importlib.metadata.version(tool) for tool in sorted(tools)}


def server_arguments_of(name: str, models: Mapping[str, Document[ModelSpec]]) -> tuple[str, ...]:
    """Return the Triton arguments that a model or its members need."""
    parts = (models[part].record for part in _parts(name, models))
    trusting = any(part.tensorrt and part.tensorrt.version_compatible for part in parts)
    return (VERSION_COMPATIBLE,) if trusting else ()


def _parts(name: str, models: Mapping[str, Document[ModelSpec]]) -> Iterator[str]:
    """Yield the model and its members, at any depth."""
    yield name
    for member in models[name].record.members:
        yield from _parts(member, models)


BACKEND_OF_FORMAT = {"onnx": "onnxruntime", "torchscript": "pytorch", "tensorrt": "tensorrt"}
BACKEND_OF_KIND = {
    "torchscript": "pytorch",
    "trees": "fil",
    "scikit-learn": "onnxruntime",
    "python": "python",
    "text-generation": "python",
    "text-to-text": "python",
    "vllm": "vllm",
}
REMEDY = {
    "tensorrt": "engines need NVIDIA's image: run `tritonstack build` without --local",
    "vllm": "SageMaker's Triton images lack it; NVIDIA's images tagged <release>-vllm-python-py3 include "
    "it: build with --local inside one, and serve from one",
}
INSTALL = "run `tritonstack setup` with the extra `build` installed"


def needed_backends(spec: ModelSpec) -> tuple[str, ...]:
    """Return the backends of the model's own parts; an ensemble of models has none."""
    needed = {BACKEND_OF_FORMAT[spec.format]} if spec.format else set()
    if spec.format == "onnx" and spec.precision == "bf16":
        needed = {OPENVINO}
    elif spec.format == "onnx" and spec.precision == "auto" and not list(openvino_violations(spec)):
        needed.add(OPENVINO)  # may be the fastest
    if spec.recipe.kind in BACKEND_OF_KIND:
        needed.add(BACKEND_OF_KIND[spec.recipe.kind])
    if spec.layout == "ensemble" and not spec.members:
        needed.add("python")  # the tokenizer or image step
    return tuple(sorted(needed))


def require_backends(spec: ModelSpec, installation: TritonInstallation) -> None:
    """Raise UsageError if the local server lacks a backend of the model."""
    for backend in needed_backends(spec):
        if reason := installation.why_no_backend(backend):
            raise UsageError(
                f"{spec.name!r} cannot be checked here: {reason}",
                remedy=REMEDY.get(backend, INSTALL),
                code=MissingProgramError.code,
            )


_PACKAGES = re.compile(r"python(3\.\d+)/site-packages")
ELSEWHERE = "build without --local, which checks in the serving image"


def require_python(model: Document[ModelSpec], installation: TritonInstallation) -> None:
    """Raise InvalidFilesError for packages that the embedded server cannot import."""
    recipe = model.record.recipe
    if installation.kind != "embedded" or not isinstance(recipe, PythonRecipe):
        return
    reject(
        [
            *_python_violations(model, recipe, installation),
            *numpy_violations(
                model, release=installation.release, subject="the local server", otherwise=f"; or {ELSEWHERE}"
            ),
        ]
    )


def _python_violations(
    model: Document[ModelSpec], recipe: PythonRecipe, installation: TritonInstallation
) -> Iterator[FileViolation]:
    python = server_python(installation)
    if recipe.pythons and python not in recipe.pythons:
        yield model.violation(
            PackagesError,
            ("recipe", "pythons"),
            f"the packages are for Python {' and '.join(recipe.pythons)}; the local server "
            f"runs Python {python}",
            f'add "{python}"; or {ELSEWHERE}',
        )


def server_python(installation: TritonInstallation) -> str:
    """Return the Python version of an embedded server, such as 3.11."""
    matches = (_PACKAGES.search(str(folder)) for folder in installation.library_path)
    return next(match[1] for match in matches if match)
