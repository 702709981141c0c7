"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.project import Project
from tests.projects import write_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of one model and one environment in a temporary folder."""
    return write_project(tmp_path)
