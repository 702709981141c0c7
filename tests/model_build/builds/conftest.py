"""Builds of a model without a framework."""

from pathlib import Path

import pytest

from tests.model_build.builds.plain_model import PlainRecipe
from tests.model_build.environments.test_execution_environment import write_wheel


@pytest.fixture
def plain_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds of the plain model, with its requirements."""
    write_wheel(tmp_path / "index", "plain", "1.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr("model_build.build.recipe_for", lambda _: PlainRecipe())
