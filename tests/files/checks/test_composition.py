"""Errors of models that consist of others, which are found before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files.one_endpoint import coded, names
from tests.projects import edit
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.base.yaml import Document, load_document
from tritonstack.files.checks.ensembles import composition_violations
from tritonstack.files.loading import load_workspace
from tritonstack.files.model.model import ModelSpec

TEXT = "source: file://w\nrecipe: {kind: text-embedding}\ntest_inputs: [a text]\n"
TOKENS = "source: file://w\nrecipe: {kind: text-embedding, input: tokens}\ntest_inputs: [a text]\n"
ONNX = "source: file://w\nrecipe: {kind: onnx}\ntest_inputs: [{random: {}}]\n"
INT8, FP16 = f"{ONNX}precision: int8\n", f"{ONNX}precision: fp16\n"
FOUR = f"{ONNX}batching: {{max_batch: 4}}\n"
FIVE = "batching: {max_batch: 5}\n"
PYTHON = "recipe: {kind: python}\ntest_inputs: [{random: {}}]\n"
CHAT = "source: file://w\nrecipe: {kind: vllm}\ntest_inputs: [a text]\n"


def calls(*names: str) -> str:
    return f"recipe: {{kind: python, calls: [{', '.join(names)}]}}\ntest_inputs: [{{random: {{}}}}]\n"


def steps(*names: str, sent: str = "{random: {}}", extra: str = "") -> str:
    listing = ", ".join(f"{{model: {name}}}" for name in names)
    return f"recipe: {{kind: ensemble, steps: [{listing}]}}\ntest_inputs: [{sent}]\n{extra}"


def violations(root: Path, texts: dict[str, str]) -> list[FileViolation]:
    models: dict[str, Document[ModelSpec]] = {}
    for name, text in texts.items():
        (root / name).mkdir()
        file = root / name / "model.yaml"
        file.write_text(f"name: {name}\ndescription: A model.\n{text}")
        models[name] = load_document(file, ModelSpec)
    return list(composition_violations(models, set(models)))


def test_compatible_models_are_accepted(tmp_path: Path) -> None:
    models = {
        "words": TEXT,
        "head": ONNX + "batching: {max_batch: 8}\n",
        "own": PYTHON,
        "inner": steps("words", "head", sent="a text"),
        "whole": steps("inner", "own", sent="a text", extra="batching: {max_batch: 8}\n"),
        "judge": calls("words", "inner", "whole"),
    }
    assert not violations(tmp_path, models)


@pytest.mark.parametrize(
    ("texts", "line", "field", "code", "words"),
    [
        ({"a": ONNX, "whole": steps("a", "b")}, 3, "recipe.steps.1.model", "TS201", "'b'"),
        ({"a": ONNX, "chat": CHAT, "whole": steps("a", "chat")}, 3, "recipe.steps.1.model", "TS214", "chat"),
        (
            {"a": ONNX, "b": PYTHON + "triton: {sequences: {}}\n", "whole": steps("a", "b")},
            *(3, "recipe.steps.1.model", "TS214", "'b'"),
        ),
        ({"a": INT8, "b": FP16, "whole": steps("a", "b")}, 3, "recipe.steps", "TS119", "a: cpu b: gpu"),
        (
            {"a": ONNX, "b": ONNX + "batching: {max_batch: 0}\n", "whole": steps("a", "b")},
            *(3, "recipe.steps.1.model", "TS214", "'b' max_batch 0"),
        ),
        (
            {"a": ONNX, "b": FOUR, "whole": steps("a", "b", extra=FIVE)},
            *(5, "batching.max_batch", "TS111", "'b' 4"),
        ),
        (
            {"a": ONNX, "b": FOUR, "inner": steps("a", "b"), "whole": steps("inner", "a", extra=FIVE)},
            *(5, "batching.max_batch", "TS111", "'inner' 4"),
        ),
        (
            {"a": TOKENS, "b": ONNX, "whole": steps("a", "b", sent="a text")},
            *(4, "test_inputs.0", "TS214", "'a' tensors"),
        ),
        (
            {"a": TEXT, "b": ONNX, "whole": steps("a", "b", sent="{image: x.png}")},
            *(4, "test_inputs.0", "TS214", "'a' texts"),
        ),
        ({"a": calls("b")}, 3, "recipe.calls.0", "TS201", "'b'"),
        ({"a": calls("a")}, 3, "recipe.calls.0", "TS214", "'a' circular"),
        ({"chat": CHAT, "a": calls("chat")}, 3, "recipe.calls.0", "TS214", "'chat'"),
        ({"b": ONNX, "a": calls("b"), "c": calls("b", "a")}, 3, "recipe.calls.1", "TS214", "'a' calls"),
        ({"b": ONNX, "a": calls("b"), "w": steps("b", "a")}, 3, "recipe.steps.1.model", "TS214", "'a' calls"),
        ({"a": INT8, "b": FP16, "c": calls("a", "b")}, 3, "recipe.calls", "TS119", "a: cpu b: gpu"),
    ],
)
def test_incompatible_models_are_rejected(
    tmp_path: Path, texts: dict[str, str], line: int, field: str, code: str, words: str
) -> None:
    (violation,) = violations(tmp_path, texts)
    assert (violation.line, *coded(violation)) == (line, field, code)
    assert violation.remedy
    assert names(violation, words), violation


def test_a_pipeline_takes_one_kind_of_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidFilesError) as caught:
        violations(tmp_path, {"whole": steps("a", "b", sent="a text, {random: {}}")})
    assert [coded(violation) for violation in caught.value.violations] == [("test_inputs.1", "TS114")]


def test_only_cycles_are_reported(tmp_path: Path) -> None:
    models = {"a": steps("b", "c"), "b": steps("a", "c"), "c": ONNX, "d": steps("a", "c")}
    errors = violations(tmp_path, models)
    assert [(error.file.parent.name, *coded(error)) for error in errors] == [
        (name, "recipe.steps.0.model", "TS214") for name in "ab"
    ]


@pytest.mark.parametrize(
    "cycle",
    [
        {"loop": ("loop", "loop")},
        {"loop": ("minilm", "loop")},
        {"loop": ("other", "minilm"), "other": ("minilm", "loop")},
    ],
    ids=["of itself only", "of itself and another", "of another that contains it"],
)
def test_a_circular_ensemble_of_an_endpoint_is_reported(
    project: Project, cycle: dict[str, tuple[str, str]]
) -> None:
    """Whichever part of validation meets it first."""
    for name, parts in cycle.items():
        file = project.model_file(name)
        file.parent.mkdir(exist_ok=True)
        text = steps(*parts, sent="a").replace("}]}", "}], outputs: [y]}")
        file.write_text(f"name: {name}\ndescription: A pipeline.\n{text}")
    edit(project.environment_file("dev"), "model: minilm", "model: loop")
    with pytest.raises(InvalidFilesError) as error:
        load_workspace(project, "dev")
    circular = [violation for violation in error.value.violations if violation.code == "TS214"]
    assert circular
    assert all(names(violation, "circular") for violation in circular)
