"""The synthesized delivery stacks."""

import shutil
from typing import Any

import pytest

from tests.sample_templates import delivery_folder, delivery_templates
from tritonstack.base.paths import Project


@pytest.fixture(scope="session")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with three environments to deliver to, and previews; some tests change its files."""
    folder = tmp_path_factory.mktemp("roads")
    shutil.copytree(delivery_folder() / "project", folder, dirs_exist_ok=True)
    return Project(folder)


@pytest.fixture(scope="session")
def delivery_stacks() -> dict[str, dict[str, Any]]:
    """The template of each environment's stack."""
    return {name: template for name, template in delivery_templates().items() if name != "pipeline"}


@pytest.fixture(scope="session")
def pipeline() -> dict[str, Any]:
    """The template of the pipeline's stack."""
    return delivery_templates()["pipeline"]
