"""The package of the plain model."""

from pathlib import Path

import pytest

from tests.model_build.wheels import write_wheel


@pytest.fixture
def plain_package(index: Path) -> None:
    """Write the only package that pip finds, with content that no other test has packed."""
    write_wheel(index, "plain", "1.0", files={"plain/test.txt": str(index)})
