"""Consistency rules between the parts of a model.yaml file."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import (
    InvalidValueError,
    MissingKeyError,
    UnavailableOptionError,
    UnreadableFileError,
)
from tritonstack.base.source_files import TRUST_EXTERNAL, leaves_folder
from tritonstack.base.yaml import Violation
from tritonstack.spec.models.model_fields import ModelFields
from tritonstack.spec.models.openvino_rules import openvino_violations
from tritonstack.spec.models.recipes import HuggingFaceRecipe
from tritonstack.spec.models.triton_rules import triton_violations

_WRITE = {
    "texts": "write texts",
    "pairs": "write `text: ...` and `text_pair: ...`",
    "questions": "write `question: ...` and `context: ...`",
    "images": "write `image: <file>`",
    "tensors": "write `inputs: {...}`, `file: <file>.npz` or `random: {}`",
}
_SOURCELESS = ("python", "ensemble", "torchscript")
"""Recipes that need no source: the model can be in the folder of model.yaml."""


def model_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield all contradictions in a model's file."""
    yield from _source_violations(spec)
    yield from _weights_violations(spec)
    yield from _input_violations(spec)
    yield from _precision_violations(spec)
    yield from _tensorrt_violations(spec)
    yield from triton_violations(spec)
    yield from _profile_violations(spec)


def _source_violations(spec: ModelFields) -> Iterator[Violation]:
    kind = spec.recipe.kind
    if spec.source is None and kind not in _SOURCELESS:
        yield MissingKeyError.at(("source",), f"the recipe {kind} needs a source", "add `source:`")
    if spec.source is not None and kind == "ensemble":
        yield UnavailableOptionError.at(
            ("source",), "an ensemble consists of its steps' models and has no source", "remove it"
        )
    scheme, _, text = (spec.source or "").partition("://")
    if scheme == "file" and leaves_folder(text) and spec.trust.external_source is None:
        yield UnreadableFileError.at(
            ("source",), f"{spec.source} is outside the model's folder", TRUST_EXTERNAL
        )


def _weights_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.allow_unused_weights and not isinstance(spec.recipe, HuggingFaceRecipe):
        yield UnavailableOptionError.at(
            ("allow_unused_weights",),
            f"the recipe {spec.recipe.kind} does not load tensors by name",
            "remove it",
        )


def _input_violations(spec: ModelFields) -> Iterator[Violation]:
    # An ensemble's inputs are those of its first steps, checked by tritonstack/project/checks/ensembles.py.
    takes = spec.test_inputs[0].kind if spec.recipe.kind == "ensemble" else spec.recipe.takes
    for index, test_input in enumerate(spec.test_inputs):
        if takes is not None and test_input.kind != takes:
            yield UnavailableOptionError.at(
                ("test_inputs", index),
                f"the recipe {spec.recipe.kind} does not accept this kind of test input"
                if spec.recipe.kind != "ensemble"
                else "all test inputs of an ensemble must be of the same kind",
                _WRITE[takes],
            )
    has_framework = isinstance(spec.recipe, HuggingFaceRecipe) or spec.generates
    for index, test_input in enumerate(spec.test_inputs):
        if test_input.outputs is not None and has_framework:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "outputs"),
                f"the recipe {spec.recipe.kind} compares with the framework's answers",
                "remove it",
            )
        if spec.streams and test_input.outputs is not None:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "outputs"),
                "a decoupled model sends several responses",
                "write `responses: [{...}, ...]` instead",
            )
        if test_input.responses is not None and not spec.streams:
            yield UnavailableOptionError.at(
                ("test_inputs", index, "responses"),
                "only decoupled Python models send several responses",
                "write `outputs: {...}`, or add `decoupled: true` to recipe",
            )
        if spec.test_inputs.index(test_input) != index:
            yield InvalidValueError.at(("test_inputs", index), "duplicate test input", "keep one of the two")


def _precision_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.precision == "bf16" and spec.format == "onnx":
        yield from openvino_violations(spec)
    if spec.precision == "fp32" or spec.format in ("onnx", "tensorrt"):
        return
    yield UnavailableOptionError.at(
        ("precision",),
        f"{spec.precision} requires an ONNX graph, which this model does not have",
        "write `precision: fp32`",
    )


def _tensorrt_violations(spec: ModelFields) -> Iterator[Violation]:
    if spec.tensorrt is not None and spec.format != "tensorrt":
        yield UnavailableOptionError.at(
            ("tensorrt",), "this model does not use TensorRT", "add `format: tensorrt` to recipe"
        )
    if spec.format == "tensorrt" and spec.precision == "auto":
        yield UnavailableOptionError.at(
            ("precision",),
            "auto selects among CPU graphs, but TensorRT runs on GPUs",
            "choose one of fp32, fp16, bf16, and int8",
        )


def _profile_violations(spec: ModelFields) -> Iterator[Violation]:
    """Yield profiles with larger batches than Triton forms: such engines are needlessly slow."""
    max_batch = spec.batching.max_batch
    for index, profile in enumerate(spec.tensorrt.profiles if spec.tensorrt else ()):
        if profile.batch is not None and profile.batch.max > max_batch:
            yield InvalidValueError.at(
                ("tensorrt", "profiles", index, "batch"),
                f"profile batches go up to {profile.batch.max}, but batching.max_batch is {max_batch}",
                "raise `batching.max_batch`, or lower `max`"
                if max_batch
                else "remove it: the model has no batch dimension",
            )
