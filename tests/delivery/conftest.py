"""The stacks of those who carry changes, synthesised once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from catalog.project import Project
from stacks.delivery import DeliveryStack, carried_to
from tests.delivery.roads import write_roads
from tests.stacks.assemblies import new_app

Templates = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="session")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with three environments on the road, and previews."""
    return write_roads(tmp_path_factory.mktemp("roads"))


@pytest.fixture(scope="session")
def carriers(roads: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The template of each environment's stack."""
    folder = tmp_path_factory.mktemp("carriers")
    for name in ("dev", "staging", "prod"):
        app = new_app(folder / name)
        DeliveryStack(app, carried=carried_to(roads, name))
        app.synth()
    return {
        name: json.loads((folder / name / f"tritonstack-delivery-{name}.template.json").read_text())
        for name in ("dev", "staging", "prod")
    }
