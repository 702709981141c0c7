"""`validate` reports what a `file://` source lacks, for every recipe, before a build reads the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from tests.files.one_endpoint import coded, names
from tests.projects import EMPTY_WEIGHTS, write_project
from tritonstack.base.errors import FileViolation
from tritonstack.base.paths import Project
from tritonstack.files.loading import ProjectFiles
from tritonstack.files.model.recipes import Recipe
from tritonstack.files.validation import validate_project

TEXTS, TENSORS = "[a text]", "[{inputs: {x: [1.0]}, outputs: {y: [1.0]}}]"
PAIRS = "[{text: Who?, text_pair: Me.}]"
QUESTIONS = "[{question: Who?, context: Me.}]"
HUB = ("weights.safetensors", "source")
RECIPES: dict[str, tuple[str, str, str, str]] = {
    "text-embedding": ("{kind: text-embedding}", TEXTS, *HUB),
    "text-classification": ("{kind: text-classification}", TEXTS, *HUB),
    "text-pair-classification": ("{kind: text-pair-classification}", PAIRS, *HUB),
    "token-classification": ("{kind: token-classification}", TEXTS, *HUB),
    "question-answering": ("{kind: question-answering}", QUESTIONS, *HUB),
    "feature-extraction": ("{kind: feature-extraction}", TEXTS, *HUB),
    "image-classification": ("{kind: image-classification}", "[{image: a.png}]", *HUB),
    "image-embedding": ("{kind: image-embedding}", "[{image: a.png}]", *HUB),
    "vllm": ("{kind: vllm}\nbatching: {max_batch: 0}", TEXTS, *HUB),
    "text-generation": ("{kind: text-generation}", TEXTS, *HUB),
    "text-to-text": ("{kind: text-to-text}", TEXTS, *HUB),
    "onnx": ("{kind: onnx, file: graph.onnx}", TENSORS, "graph.onnx", "recipe.file"),
    "torchscript": ("{kind: torchscript, file: m.pt}", TENSORS, "m.pt", "recipe.file"),
    "torchscript entry": ('{kind: torchscript, entry: "make.py:make"}', TENSORS, "table.json", "source"),
    "trees": ("{kind: trees, file: m.json}", TENSORS, "m.json", "recipe.file"),
    "scikit-learn": ("{kind: scikit-learn, file: m.joblib}", TENSORS, "m.joblib", "recipe.file"),
    "python": ("{kind: python}", TENSORS, "table.json", "source"),
    "triton": ("{kind: triton}", TENSORS, "config.pbtxt", "source"),
}
"""Recipe, test inputs, the file of the source that it needs, and the field that names it."""


def with_source(folder: Path, name: str, source: str = "file://parts") -> Project:
    """Write a project whose model has a source of its own."""
    project = write_project(folder)
    recipe, inputs, _, _ = RECIPES[name]
    file = project.model_file("minilm")
    file.write_text(
        f"name: minilm\ndescription: M.\nsource: {source}\nrecipe: {recipe}\ntest_inputs: {inputs}\n"
    )
    for own in ("model.py", "make.py", "a.png"):
        (file.parent / own).write_text("class TritonPythonModel:\n    def execute(self, requests): ...\n")
    return project


def of_source(project: Project) -> list[FileViolation]:
    """Return the violations of the model's file."""
    return [
        found
        for found in validate_project(ProjectFiles(project))
        if found.file == project.model_file("minilm")
    ]


def parts_of(project: Project) -> Path:
    parts = project.model_file("minilm").parent / "parts"
    parts.mkdir()
    return parts


def test_every_recipe_with_a_source_is_tested() -> None:
    records = get_args(get_args(Recipe)[0])
    kinds = {get_args(record.model_fields["kind"].annotation)[0] for record in records}
    assert kinds - set(RECIPES) == {"ensemble"}


@pytest.mark.parametrize("name", RECIPES)
def test_a_missing_folder_is_reported(tmp_path: Path, name: str) -> None:
    project = with_source(tmp_path, name)
    (found,) = of_source(project)
    assert (found.line, found.field, found.code) == (3, "source", "TS301")
    assert names(found, f"file://parts {project.model_file('minilm').parent / 'parts'}")


@pytest.mark.parametrize("name", RECIPES)
def test_a_file_as_the_source_is_reported(tmp_path: Path, name: str) -> None:
    (found,) = of_source(with_source(tmp_path, name, "file://make.py"))
    assert (found.line, *coded(found)) == (3, "source", "TS301")
    assert names(found, "file://make.py")


@pytest.mark.parametrize("name", RECIPES)
def test_a_folder_without_the_file_is_reported(tmp_path: Path, name: str) -> None:
    project = with_source(tmp_path, name)
    (parts_of(project) / ".gitkeep").write_text("")
    (found,) = of_source(project)
    _, _, needed, field = RECIPES[name]
    assert (found.field, found.line, found.code) == (field, 4 if field == "recipe.file" else 3, "TS302")
    assert found.remedy
    assert field == "source" or names(found, needed)


@pytest.mark.parametrize("name", RECIPES)
def test_a_complete_source_is_valid_unless_a_file_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project = with_source(tmp_path, name)
    needed = parts_of(project) / RECIPES[name][2]
    needed.write_bytes(EMPTY_WEIGHTS)
    assert of_source(project) == []
    opened, open_file = [], Path.open

    def deny(file: Path, *arguments: Any, **named: Any) -> Any:
        if file == needed:
            opened.append(file)
            raise PermissionError(13, "Permission denied", str(file))
        return open_file(file, *arguments, **named)

    monkeypatch.setattr(Path, "open", deny)  # root may read every file
    (found,) = of_source(project)
    assert opened
    assert (found.line, *coded(found)) == (3, "source", "TS101")
    assert names(found, f"{needed.name} Permission")


def test_the_nearest_name_is_suggested(tmp_path: Path) -> None:
    project = with_source(tmp_path, "onnx")
    (parts_of(project) / "grap.onnx").write_text("")
    (found,) = of_source(project)
    assert "'grap.onnx'?" in str(found.remedy)


def test_a_pickle_without_trust_is_reported(tmp_path: Path) -> None:
    project = with_source(tmp_path, "text-embedding")
    (parts_of(project) / "pytorch_model.bin").write_text("")
    (found,) = of_source(project)
    assert (found.field, found.code) == ("source", "TS217")


def test_an_unreadable_file_beside_model_yaml_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = with_source(tmp_path, "python")
    (parts_of(project) / "table.json").write_text("{}")
    code, open_file = project.model_file("minilm").parent / "model.py", Path.open

    def deny(file: Path, *arguments: Any, **named: Any) -> Any:
        if file == code:
            raise PermissionError(13, "Permission denied", str(file))
        return open_file(file, *arguments, **named)

    monkeypatch.setattr(Path, "open", deny)
    errors = {(*coded(found), names(found, "model.py Permission")) for found in of_source(project)}
    assert errors == {("recipe.code", "TS101", True)}
