"""What the checking server lacks is reported before anything is fetched, resolved, or exported."""

import json
from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, build_model
from model_build.needs import needed_backends, require_python, server_python
from model_build.progress import Progress
from tests.model_build.recipes.test_python_models import python_model
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny import write_model
from tritonstack.base.errors import FileViolation, InvalidFilesError, UsageError
from tritonstack.base.paths import find_project
from tritonstack.triton import find_installation
from tritonstack.triton.installation import RECORD_NAME

EMBEDDING: dict[str, Any] = {"kind": "text-embedding"}
STEPS = {"kind": "ensemble", "steps": [{"model": "a"}, {"model": "b"}]}


@pytest.mark.parametrize(
    ("recipe", "more", "needed"),
    [
        (EMBEDDING, {}, ["onnxruntime", "python"]),
        (EMBEDDING, {"precision": "bf16"}, ["openvino", "python"]),
        ({**EMBEDDING, "input": "tokens"}, {}, ["onnxruntime"]),
        ({"kind": "text-classification", "format": "torchscript"}, {}, ["python", "pytorch"]),
        ({"kind": "onnx"}, {}, ["onnxruntime"]),
        ({"kind": "onnx"}, {"precision": "bf16"}, ["openvino"]),
        ({"kind": "onnx"}, {"precision": "auto"}, ["onnxruntime", "openvino"]),
        ({"kind": "onnx"}, {"precision": "auto", "batching": {"queue_delay_us": 5}}, ["onnxruntime"]),
        ({"kind": "torchscript", "file": "model.pt"}, {}, ["pytorch"]),
        ({"kind": "trees", "file": "model.json"}, {}, ["fil"]),
        (STEPS, {"source": None, "batching": None}, []),
    ],
)
def test_required_backends_of_a_file(tmp_path, recipe, more, needed):
    tests = ["a text"] if recipe["kind"].startswith("text") else [{"inputs": {"x": [1.0]}}]
    model = write_supplied(tmp_path, recipe, **{"test_inputs": tests, **more})
    assert list(needed_backends(model.record)) == needed


def test_missing_backend_is_reported_before_the_source_is_fetched(tmp_path, folders):
    server = tmp_path / "server"
    (server / "backends/python").mkdir(parents=True)
    (server / "lib").mkdir()
    record = {"version": "1", "release": "24.10", "site_packages": "p", "outside": [], "missing": {}}
    (server / RECORD_NAME).write_text(json.dumps(record))
    told: list[Progress] = []
    lacking = BuildFolders(folders.artifacts, folders.cache, server)
    with pytest.raises(UsageError, match="no onnxruntime") as caught:
        build_model(model=write_model(tmp_path, source="file://no"), folders=lacking, on_progress=told.append)
    assert "tritonstack setup" in (caught.value.remedy or "")
    assert told == []


INSTALLATION = find_installation(home=find_project(Path(__file__)).server_dir)
OWN = server_python(INSTALLATION)


def violations_of(folder: Path, requirements: str, *pythons: str) -> list[FileViolation]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.txt").write_text(requirements)
    recipe = {"requirements": "requirements.txt", "pythons": list(pythons)}
    try:
        require_python(python_model(folder, recipe=recipe), INSTALLATION)
    except InvalidFilesError as error:
        return list(error.violations)
    return []


def test_packages_for_another_python_or_numpy_are_rejected(tmp_path):
    (violation,) = violations_of(tmp_path, "six==1.17.0\n", "3.8", "3.9")
    assert (violation.file.name, violation.field) == ("model.yaml", "recipe.pythons")
    assert f'add "{OWN}"' in (violation.remedy or "")
    (violation,) = violations_of(tmp_path, "six==1.17.0\nNumPy==2.1.0\n")
    assert (violation.file.name, violation.line) == ("requirements.txt", 2)
    assert violations_of(tmp_path / "own", "six==1.17.0\n", "3.8", OWN) == []
    assert violations_of(tmp_path / "all", "six==1.17.0\nnumpy==1.26.4\n") == []


def test_build_fails_before_it_fetches(tmp_path, folders, monkeypatch):
    monkeypatch.setattr("model_build.build.fetch_source", lambda *_, **__: pytest.fail("fetched"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "requirements.txt").write_text("six==1.17.0\n")
    recipe = {"requirements": "requirements.txt", "pythons": ["3.9"]}
    model = python_model(tmp_path, recipe=recipe, source="file://weights")
    with pytest.raises(InvalidFilesError, match=r"3\.9"):
        build_model(model=model, folders=folders)
