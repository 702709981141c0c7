"""Requirements that the local server cannot import are rejected before anything is fetched or resolved."""

from pathlib import Path

import pytest

from model_build.build import build_model
from model_build.needed_python import require_python, server_python
from tests.model_build.recipes.test_python_models import python_model
from tritonstack.base.errors import FileViolation, InvalidFilesError
from tritonstack.base.paths import find_project
from tritonstack.runtime import find_installation

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


def test_packages_for_another_python_version_are_rejected(tmp_path):
    (violation,) = violations_of(tmp_path, "six==1.17.0\n", "3.8", "3.9")
    assert (violation.file.name, violation.field) == ("model.yaml", "recipe.pythons")
    assert f'add "{OWN}"' in (violation.remedy or "")
    assert violations_of(tmp_path / "own", "six==1.17.0\n", "3.8", OWN) == []
    assert violations_of(tmp_path / "all", "six==1.17.0\n") == []


def test_an_incompatible_numpy_is_rejected(tmp_path):
    (violation,) = violations_of(tmp_path, "six==1.17.0\nNumPy==2.1.0\n")
    assert (violation.file.name, violation.line) == ("requirements.txt", 2)
    assert violations_of(tmp_path / "numpy", "numpy==1.26.4\n") == []


def test_build_fails_before_it_fetches(tmp_path, folders, monkeypatch):
    monkeypatch.setattr("model_build.build.fetch_source", lambda *_, **__: pytest.fail("fetched"))
    (tmp_path / "weights").mkdir()
    (tmp_path / "requirements.txt").write_text("six==1.17.0\n")
    recipe = {"requirements": "requirements.txt", "pythons": ["3.9"]}
    model = python_model(tmp_path, recipe=recipe, source="file://weights")
    with pytest.raises(InvalidFilesError, match=r"3\.9"):
        build_model(model=model, folders=folders)
