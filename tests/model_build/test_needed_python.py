"""Requirements that the local server cannot import are rejected before anything is fetched or resolved."""

from pathlib import Path

import pytest

from model_build.build import build_model
from model_build.needed_python import require_python, server_python
from tests.model_build.recipes.test_python_models import python_model
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import find_project
from tritonstack.runtime import find_installation

INSTALLATION = find_installation(home=find_project(Path(__file__)).server_dir)
OWN = server_python(INSTALLATION)


def violations_of(folder: Path, requirements: str, *pythons: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "requirements.txt").write_text(requirements)
    recipe = {"requirements": "requirements.txt", "pythons": list(pythons)}
    model = python_model(folder, recipe=recipe)
    try:
        require_python(model, INSTALLATION)
    except InvalidFilesError as error:
        return [
            f"{one.file.name}:{one.line}: {one.field}: {one.message} -- {one.remedy}"
            for one in error.violations
        ]
    return []


def test_packages_for_another_python_version_are_rejected(tmp_path):
    (found,) = violations_of(tmp_path, "six==1.17.0\n", "3.8", "3.9")
    assert found.startswith("model.yaml:")
    assert "recipe.pythons: the packages are for Python 3.8 and 3.9; the local server" in found
    assert f'runs Python {OWN} -- add "{OWN}"; or build without --local' in found
    assert violations_of(tmp_path / "own", "six==1.17.0\n", "3.8", OWN) == []
    assert violations_of(tmp_path / "all", "six==1.17.0\n") == []


def test_an_incompatible_numpy_is_rejected(tmp_path):
    (found,) = violations_of(tmp_path, "six==1.17.0\nNumPy==2.1.0\n")
    assert found.startswith(
        "requirements.txt:2: : the Python backend of the local server (Triton 24.10) requires NumPy 1"
    )
    assert violations_of(tmp_path / "one", "numpy==1.26.4\n") == []


def test_build_fails_before_it_fetches(tmp_path, folders, monkeypatch):
    def fetched(*_: object, **__: object) -> None:
        raise AssertionError("fetched")

    monkeypatch.setattr("model_build.build.fetch_source", fetched)
    (tmp_path / "weights").mkdir()
    (tmp_path / "requirements.txt").write_text("six==1.17.0\n")
    recipe = {"requirements": "requirements.txt", "pythons": ["3.9"]}
    model = python_model(tmp_path, recipe=recipe, source="file://weights")
    with pytest.raises(InvalidFilesError, match=r"the packages are for Python 3\.9"):
        build_model(model=model, folders=folders)
