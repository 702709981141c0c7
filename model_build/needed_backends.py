"""Find the Triton backends that a model needs, from model.yaml alone."""

from __future__ import annotations

from tritonstack.base.error_kinds import MissingProgramError
from tritonstack.base.errors import UsageError
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.openvino_rules import OPENVINO, openvino_violations
from tritonstack.triton import TritonInstallation

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
