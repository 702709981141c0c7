"""The package of the plain model."""

from pathlib import Path

import pytest

from tests.model_build.environments.test_execution_environment import write_wheel


@pytest.fixture
def plain_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the only package that pip finds."""
    write_wheel(tmp_path / "index", "plain", "1.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
