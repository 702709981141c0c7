"""The wheels and their environments, made once per run for all workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.wheels import PROJECTS, Installed, borrow, borrow_everything, build_wheel, install
from tests.sample_templates import once


@pytest.fixture(scope="session")
def wheels() -> dict[str, Path]:
    folder = once("wheels", lambda to: [build_wheel(project, to) for project in PROJECTS.values()])
    return {name: next(folder.rglob(f"{name}-*.whl")) for name in PROJECTS}


@pytest.fixture(scope="session")
def complete(wheels: dict[str, Path]) -> Installed:
    """Every extra is installed. Other tests use the same environment: add nothing to it."""
    return Installed(once("complete", lambda to: borrow_everything(install(to, wheels.values()))))


@pytest.fixture(scope="session")
def client_only(wheels: dict[str, Path]) -> Installed:
    """`pip install tritonstack`, without an extra."""
    client = [wheels["tritonstack"]]
    return Installed(once("client", lambda to: borrow(install(to, client), "numpy", "boto3")))
