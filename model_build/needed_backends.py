"""Which of Triton's backends a model needs: known from its file, before anything is fetched or exported."""

from __future__ import annotations

from tritonstack.base.errors import UsageError
from tritonstack.runtime import TritonInstallation
from tritonstack.spec.models.model import ModelSpec

BACKEND_OF_FORMAT = {"onnx": "onnxruntime", "torchscript": "pytorch", "tensorrt": "tensorrt"}
BACKEND_OF_KIND = {"torchscript": "pytorch", "trees": "fil", "python": "python", "vllm": "vllm"}
REMEDY = {
    "tensorrt": "engines are made in NVIDIA's image: without --local, `tritonstack build` does that",
    "vllm": "SageMaker's Triton images come without it; NVIDIA's with the tag <release>-vllm-python-py3 have "
    "it: build with --local inside one, and serve from one",
}
INSTALL = "`make setup` installs it with the embedded server"


def needed_backends(spec: ModelSpec) -> tuple[str, ...]:
    """The backends that run the model's parts; a pipeline of other models has none of its own."""
    needed = {BACKEND_OF_FORMAT[spec.format]} if spec.format else set()
    if spec.recipe.kind in BACKEND_OF_KIND:
        needed.add(BACKEND_OF_KIND[spec.recipe.kind])
    if spec.layout == "ensemble" and not spec.members:
        needed.add("python")  # the step before the graph
    return tuple(sorted(needed))


def require_backends(spec: ModelSpec, installation: TritonInstallation) -> None:
    """Raise UsageError if the server that the archive would be checked with cannot run it."""
    for backend in needed_backends(spec):
        if reason := installation.why_no_backend(backend):
            raise UsageError(
                f"{spec.name!r} cannot be checked here: {reason}", remedy=REMEDY.get(backend, INSTALL)
            )
