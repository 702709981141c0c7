"""A project to import models into."""

from pathlib import Path

import pytest

from tests.projects import write_project
from tritonstack.base.paths import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "project").mkdir()
    return write_project(tmp_path / "project")
