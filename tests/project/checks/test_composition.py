"""Errors of an ensemble that are found before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonstack.base.yaml import Document, load_document
from tritonstack.project.checks.ensembles import composition_violations
from tritonstack.spec.models.model import ModelSpec

TEXT = "source: file://w\nrecipe: {kind: text-embedding}\ntest_inputs: [a text]\n"
TOKENS = "source: file://w\nrecipe: {kind: text-embedding, input: tokens}\ntest_inputs: [a text]\n"
ONNX = "source: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"
PYTHON = "recipe: {kind: python}\ntest_inputs: [{random: {}}]\n"
CHAT = "source: file://w\nrecipe: {kind: vllm}\ntest_inputs: [a text]\n"


def calls(*names: str, extra: str = "") -> str:
    return f"recipe: {{kind: python, calls: [{', '.join(names)}]}}\ntest_inputs: [{{random: {{}}}}]\n{extra}"


def steps(*names: str, sent: str = "{random: {}}", extra: str = "") -> str:
    listing = ", ".join(f"{{model: {name}}}" for name in names)
    return f"recipe: {{kind: ensemble, steps: [{listing}]}}\ntest_inputs: [{sent}]\n{extra}"


def violations(root: Path, **texts: str) -> list[str]:
    models: dict[str, Document[ModelSpec]] = {}
    for name, text in texts.items():
        (root / name).mkdir()
        file = root / name / "model.yaml"
        file.write_text(f"name: {name}\ndescription: A model.\n{text}")
        models[name] = load_document(file, ModelSpec)
    return [str(violation) for violation in composition_violations(models, set(models))]


def test_compatible_models_are_accepted(tmp_path: Path) -> None:
    assert not violations(
        tmp_path,
        words=TEXT,
        head=ONNX + "batching: {max_batch: 8}\n",
        own=PYTHON,
        inner=steps("words", "head", sent="a text"),
        whole=steps("inner", "own", sent="a text", extra="batching: {max_batch: 8}\n"),
        judge=calls("words", "inner", "whole"),
    )


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"a": ONNX, "whole": steps("a", "b")}, "model.yaml:3: recipe.steps.1.model: unknown model 'b'"),
        (
            {"a": ONNX, "chat": CHAT, "whole": steps("a", "chat")},
            "steps.1.model: 'chat' returns several responses per request",
        ),
        (
            {"a": ONNX, "b": PYTHON + "triton: {sequences: {}}\n", "whole": steps("a", "b")},
            "steps.1.model: 'b' keeps state",
        ),
        (
            {"a": ONNX + "precision: int8\n", "b": ONNX + "precision: fp16\n", "whole": steps("a", "b")},
            "recipe.steps: no machine type runs all of its models (a: cpu, b: gpu)",
        ),
        (
            {"a": ONNX, "b": ONNX + "batching: {max_batch: 0}\n", "whole": steps("a", "b")},
            "steps.1.model: 'b' has no batch dimension",
        ),
        (
            {
                "a": ONNX,
                "b": ONNX + "batching: {max_batch: 4}\n",
                "whole": steps("a", "b", extra="batching: {max_batch: 5}\n"),
            },
            "model.yaml:5: batching.max_batch: 'b' accepts at most 4",
        ),
        (
            {
                "a": ONNX,
                "b": ONNX + "batching: {max_batch: 4}\n",
                "inner": steps("a", "b"),
                "whole": steps("inner", "a", extra="batching: {max_batch: 5}\n"),
            },
            "'inner' accepts at most 4",
        ),
        (
            {"a": TOKENS, "b": ONNX, "whole": steps("a", "b", sent="a text")},
            "model.yaml:4: test_inputs.0: the first step, 'a', expects tensors",
        ),
        ({"a": calls("b")}, "model.yaml:3: recipe.calls.0: unknown model 'b'"),
        ({"a": calls("a")}, "recipe.calls.0: circular call: 'a' contains itself"),
        ({"chat": CHAT, "a": calls("chat")}, "recipe.calls.0: 'chat' returns several responses per request"),
        ({"b": ONNX, "a": calls("b"), "c": calls("b", "a")}, "calls.1: 'a' calls other models"),
        ({"b": ONNX, "a": calls("b"), "whole": steps("b", "a")}, "steps.1.model: 'a' calls other models"),
        (
            {"a": ONNX + "precision: int8\n", "b": ONNX + "precision: fp16\n", "c": calls("a", "b")},
            "recipe.calls: no machine type runs all of its models (a: cpu, b: gpu)",
        ),
        (
            {"a": TEXT, "b": ONNX, "whole": steps("a", "b", sent="{image: x.png}")},
            "test_inputs.0: the first step, 'a', expects texts",
        ),
    ],
)
def test_incompatible_models_are_rejected(tmp_path: Path, texts: dict[str, str], complaint: str) -> None:
    (found,) = violations(tmp_path, **texts)
    assert complaint in found
    assert "help: " in found


def test_only_cycles_are_reported(tmp_path: Path) -> None:
    found = violations(tmp_path, a=steps("b", "c"), b=steps("a", "c"), c=ONNX, d=steps("a", "c"))
    assert len(found) == 2
    assert all("circular ensemble" in violation for violation in found)


def test_a_pipeline_takes_one_kind_of_input(tmp_path: Path) -> None:
    from tritonstack.base.errors import InvalidFilesError

    with pytest.raises(InvalidFilesError, match=r"test_inputs.1: all test inputs of an ensemble"):
        violations(tmp_path, a=TEXT, b=ONNX, whole=steps("a", "b", sent="a text, {random: {}}"))
