"""The synthesized delivery stacks."""

import json
from typing import Any

import pytest

from stacks.delivery import DeliveryStack
from stacks.delivery_target import delivery_target
from stacks.pipeline import PipelineStack, line_of
from tests.delivery.delivery_project import write_delivery_project
from tests.stacks.assemblies import new_app
from tritonstack.base.paths import Project


@pytest.fixture(scope="session")
def roads(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with three environments to deliver to, and previews."""
    return write_delivery_project(tmp_path_factory.mktemp("roads"))


@pytest.fixture(scope="session")
def delivery_stacks(roads: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The template of each environment's stack."""
    folder = tmp_path_factory.mktemp("carriers")
    for name in ("dev", "staging", "prod"):
        app = new_app(folder / name)
        DeliveryStack(app, target=delivery_target(roads, name))
        app.synth()
    return {
        name: json.loads((folder / name / f"tritonstack-delivery-{name}.template.json").read_text())
        for name in ("dev", "staging", "prod")
    }


@pytest.fixture(scope="session")
def pipeline(roads: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The template of the pipeline's stack."""
    folder = tmp_path_factory.mktemp("pipeline")
    app = new_app(folder)
    PipelineStack(app, line=line_of(roads, "main"))
    app.synth()
    template: dict[str, Any] = json.loads(
        (folder / "tritonstack-delivery-pipeline.template.json").read_text()
    )
    return template
