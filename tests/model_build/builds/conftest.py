"""The package of the plain model."""

from pathlib import Path

import pytest

from model_build.build import BuildFolders
from tests.model_build.environments.wheels import write_wheel


@pytest.fixture
def plain_package(index: Path, folders: BuildFolders) -> None:
    """Write the only package that pip finds; no other test has packed it."""
    write_wheel(index, "plain", "1.0")
    (folders.cache / "environments").unlink()
