"""What the parts of a model's file have to be to each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tritonstack.base.documents import Fault
from tritonstack.base.source_files import TRUST_EXTERNAL, leaves_folder
from tritonstack.spec.models.recipes import HuggingFaceRecipe
from tritonstack.spec.models.triton_rules import triton_faults

if TYPE_CHECKING:
    from tritonstack.spec.models.model import ModelSpec

_WRITE = {
    "texts": "write texts",
    "questions": "write `question: ...` and `context: ...`",
    "images": "write `image: <file>`",
    "tensors": "write `inputs: {...}`, `file: <file>.npz` or `random: {}`",
}
_SOURCELESS = ("python", "ensemble", "torchscript")
"""Recipes whose model can lie beside model.yaml altogether."""


def model_faults(spec: ModelSpec) -> Iterator[Fault]:
    """Everything that does not go together."""
    yield from _source_faults(spec)
    yield from _weights_faults(spec)
    yield from _input_faults(spec)
    yield from _precision_faults(spec)
    yield from _tensorrt_faults(spec)
    yield from triton_faults(spec)
    yield from _profile_faults(spec)


def _source_faults(spec: ModelSpec) -> Iterator[Fault]:
    kind = spec.recipe.kind
    if spec.source is None and kind not in _SOURCELESS:
        yield Fault(("source",), f"the recipe {kind} needs a source", "say where the weights come from")
    if spec.source is not None and kind == "ensemble":
        yield Fault(("source",), "an ensemble is made of its steps' models and has no source", "remove it")
    scheme, _, text = (spec.source or "").partition("://")
    if scheme == "file" and leaves_folder(text) and spec.trust.external_source is None:
        yield Fault(("source",), f"{spec.source} is outside the model's folder", TRUST_EXTERNAL)


def _weights_faults(spec: ModelSpec) -> Iterator[Fault]:
    if spec.allow_unused_weights and not isinstance(spec.recipe, HuggingFaceRecipe):
        yield Fault(
            ("allow_unused_weights",),
            f"the recipe {spec.recipe.kind} does not load tensors by name",
            "remove it",
        )


def _input_faults(spec: ModelSpec) -> Iterator[Fault]:
    # A pipeline takes what its first steps take; tritonstack/project/checks/ensembles.py looks at those.
    takes = spec.test_inputs[0].kind if spec.recipe.kind == "ensemble" else spec.recipe.takes
    for index, test_input in enumerate(spec.test_inputs):
        if takes is not None and test_input.kind != takes:
            yield Fault(
                ("test_inputs", index),
                f"the recipe {spec.recipe.kind} is not tested with this"
                if spec.recipe.kind != "ensemble"
                else "the first test input is of another kind, and a pipeline takes one",
                _WRITE[takes],
            )
    for index, test_input in enumerate(spec.test_inputs):
        if spec.test_inputs.index(test_input) != index:
            yield Fault(("test_inputs", index), "this stands twice", "keep one of the two")


def _precision_faults(spec: ModelSpec) -> Iterator[Fault]:
    if spec.precision == "bf16" and spec.format == "onnx":
        yield Fault(
            ("precision",),
            "only TensorRT computes in bf16: Triton's ONNX Runtime has no way to, on no processor",
            "write `precision: auto` for processors and `precision: fp16` for GPUs, or `format: tensorrt`",
        )
    if spec.precision == "fp32" or spec.format in ("onnx", "tensorrt"):
        return
    yield Fault(
        ("precision",),
        f"{spec.precision} is made from an ONNX graph, and this model has none",
        "write `precision: fp32`",
    )


def _tensorrt_faults(spec: ModelSpec) -> Iterator[Fault]:
    if spec.tensorrt is not None and spec.format != "tensorrt":
        yield Fault(
            ("tensorrt",), "this model is not built with TensorRT", "add `format: tensorrt` to recipe"
        )
    if spec.format == "tensorrt" and spec.precision == "auto":
        yield Fault(
            ("precision",),
            "auto chooses among graphs for processors, and TensorRT runs on GPUs",
            "choose one of fp32, fp16, bf16 and int8",
        )


def _profile_faults(spec: ModelSpec) -> Iterator[Fault]:
    """An engine that takes larger batches than Triton makes is slower for nothing."""
    max_batch = spec.batching.max_batch
    for index, profile in enumerate(spec.tensorrt.profiles if spec.tensorrt else ()):
        if profile.batch is not None and profile.batch.max > max_batch:
            yield Fault(
                ("tensorrt", "profiles", index, "batch"),
                f"the profile takes batches up to {profile.batch.max}, and batching.max_batch is {max_batch}",
                "raise `batching.max_batch`, or lower `max`"
                if max_batch
                else "remove it: there are no batches",
            )
