"""Calls of other models in the code of Python models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import load_document
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.sources.contents import check_model


def violations(folder: Path, calls: str, code: str, helper: str = "") -> list[FileViolation]:
    (folder / "model.yaml").write_text(
        f"name: judge\ndescription: Calls models.\nrecipe: {{kind: python{calls}}}\n"
        "test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [1.0]}}]\n"
    )
    (folder / "model.py").write_text(code)
    (folder / "helper.py").write_text(helper)
    return list(check_model(load_document(folder / "model.yaml", ModelSpec)).violations)


@pytest.mark.parametrize(
    ("calls", "code", "remedy"),
    [
        ("", 'pb_utils.InferenceRequest(model_name="mood")', "write `calls: [mood]`"),
        (", calls: [words]", 'InferenceRequest(model_name="mood")', "write `calls: [words, mood]`"),
        (
            ", calls: [moods]",
            'pb_utils.InferenceRequest(inputs=[], model_name="mood")',
            "did you mean 'moods'?",
        ),
    ],
)
def test_undeclared_calls_are_found(tmp_path: Path, calls: str, code: str, remedy: str) -> None:
    for file in ("model", "helper"):
        texts = {"code": "", "helper": "", "code" if file == "model" else "helper": f"import os\n\n{code}\n"}
        (found,) = violations(tmp_path, calls, texts["code"], texts["helper"])
        assert (found.file.name, found.line, found.code) == (f"{file}.py", 3, "TS214")
        assert remedy in str(found.remedy)


@pytest.mark.parametrize(
    "code",
    [
        'pb_utils.InferenceRequest(model_name="mood")',
        "pb_utils.InferenceRequest(model_name=name)",
        'other(model_name="words")',
        "not Python (",
    ],
)
def test_other_code_is_accepted(tmp_path: Path, code: str) -> None:
    assert violations(tmp_path, ", calls: [mood]", code) == []
