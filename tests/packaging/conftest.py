"""The wheels, built once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.wheels import (
    PROJECTS,
    Installed,
    borrow,
    borrow_everything,
    build_wheel,
    install,
)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    return {name: build_wheel(project, folder) for name, project in PROJECTS.items()}


@pytest.fixture(scope="session")
def complete(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Every extra is installed."""
    environment = install(tmp_path_factory.mktemp("complete"), wheels.values())
    borrow_everything(environment)
    return environment


@pytest.fixture(scope="session")
def client_only(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install tritonstack`, without an extra."""
    environment = install(tmp_path_factory.mktemp("client"), [wheels["tritonstack"]])
    borrow(environment, "numpy", "boto3")
    return environment
