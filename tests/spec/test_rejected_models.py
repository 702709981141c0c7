"""One rejected example of each rule on a model's file that no other test has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import load_document
from tritonstack.reference.releases import RELEASES
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.tensorrt import TensorRT
from tritonstack.spec.models.tensorrt_rules import tensorrt_violations

USUAL = "name: scorer, description: Scores., source: 'file://weights', test_inputs: [{random: {}}]"
ONNX, TEXT, PYTHON = ("recipe: {kind: onnx}", "recipe: {kind: text-embedding}", "recipe: {kind: python}")
ENGINE = "recipe: {kind: onnx, format: tensorrt}"
DECOUPLED = "recipe: {kind: python, decoupled: true}"
STREAMED = "test_inputs: [{inputs: {x: [1]}, responses: [{y: [1]}]}]"

REJECTED = {
    "a question without its context": (f"{TEXT}, test_inputs: [{{question: q}}]", "test_inputs.0"),
    "a second text alone": (f"{TEXT}, test_inputs: [{{inputs: {{x: [1]}}, text_pair: b}}]", "test_inputs.0"),
    "outputs without inputs": (
        f"{ONNX}, test_inputs: [{{outputs: {{y: [1]}}, random: {{}}}}]",
        "test_inputs.0",
    ),
    "responses without inputs": (
        f"{PYTHON}, test_inputs: [{{random: {{}}, responses: [{{y: [1]}}]}}]",
        "test_inputs.0",
    ),
    "a source of another scheme": (f"{ONNX}, source: 'ftp://host/model'", "source"),
    "no source": (f"{ONNX}, source: null", "source"),
    "an ensemble with a source": ("recipe: {kind: ensemble, steps: [{model: a}, {model: b}]}", "source"),
    "a file outside the model's folder": (
        f"{ONNX}, test_inputs: [{{file: ../inputs.npz}}]",
        "test_inputs.0.file",
    ),
    "an entry point without a function": (
        "recipe: {kind: torchscript, entry: model.py}",
        "recipe.entry",
    ),
    "a processor of tensors": ("recipe: {kind: onnx, processor: tokenizer}", "recipe"),
    "a length of tensors": ("recipe: {kind: onnx, max_length: 8}", "recipe"),
    "unused weights of a graph": (
        f"{ONNX}, allow_unused_weights: {{x: not part of the graph}}",
        "allow_unused_weights",
    ),
    "8 bits of a Python model": (f"{PYTHON}, precision: int8", "precision"),
    "engine options without an engine": (f"{ONNX}, tensorrt: {{}}", "tensorrt"),
    "a tensor that two steps produce": (
        "recipe: {kind: ensemble, steps: [{model: a, outputs: {y: z}}, {model: b, outputs: {y: z}}]}, "
        "source: null",
        "recipe.steps.1.outputs",
    ),
    "an automatic precision of an engine": (f"{ENGINE}, precision: auto", "precision"),
    "outputs of a framework": (
        f"{TEXT}, test_inputs: [{{text: a, outputs: {{y: [1]}}}}]",
        "test_inputs.0.outputs",
    ),
    "outputs of a stream": (
        f"{DECOUPLED}, test_inputs: [{{inputs: {{x: [1]}}, outputs: {{y: [1]}}}}]",
        "test_inputs.0.outputs",
    ),
    "responses of a model that returns one": (f"{PYTHON}, {STREAMED}", "test_inputs.0.responses"),
    "a descending range": (
        f"{ENGINE}, tensorrt: {{profiles: [{{batch: {{opt: 4, max: 2}}}}]}}",
        "tensorrt.profiles.0.batch",
    ),
    "shapes of different ranks": (
        f"{ENGINE}, tensorrt: {{profiles: [{{shapes: {{x: {{min: [1], opt: [1, 2], max: [1]}}}}}}]}}",
        "tensorrt.profiles.0.shapes.x",
    ),
    "a portable engine of several GPUs": (
        f"{ENGINE}, tensorrt: {{portability: ampere-plus, capabilities: ['8.6']}}",
        "tensorrt.capabilities",
    ),
    "an output without a tolerance": (f"{ONNX}, accept: {{outputs: {{y: {{}}}}}}", "accept.outputs.y"),
    "GPUs of a model for CPUs": (
        f"{ONNX}, precision: int8, triton: {{instances: [{{gpus: [0]}}]}}",
        "triton.instances.0.gpus",
    ),
    "batching of a repository": ("recipe: {kind: triton}, batching: {max_batch: 2}", "batching"),
    "a sequence of streams": (f"{DECOUPLED}, {STREAMED}, triton: {{sequences: {{}}}}", "triton.sequences"),
    "a stream that calls others": (
        f"recipe: {{kind: python, decoupled: true, calls: [a]}}, {STREAMED}",
        "recipe.calls",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_rule_rejects_its_example(tmp_path: Path, name: str) -> None:
    changes, field = REJECTED[name]
    document = yaml.safe_load(f"{{{USUAL}}}") | yaml.safe_load(f"{{{changes}}}")
    file = tmp_path / "model.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    assert [violation.field for violation in caught.value.violations] == [field], caught.value
    assert all(violation.remedy and violation.code for violation in caught.value.violations)


def test_tensorrt_of_a_later_release_is_rejected() -> None:
    """No supported release has it yet."""
    release = replace(RELEASES["25.04"], tensorrt="11.0.0.1")
    (violation, *_) = tensorrt_violations(TensorRT(), "fp32", release)
    assert (violation.path, violation.code) == (("tensorrt",), "TS114")
