"""The sample environments and their templates, synthesized at first use: once per run, for all workers.

Five of the templates are kept in tests/snapshots, the others as digests; tests/stacks/test_snapshots.py
compares them.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aws_cdk as cdk

    from tests.stacks.assemblies import Assembly
    from tritonstack.base.paths import Project

SHARED = "TRITONSTACK_SHARED_SAMPLES"
"""The environment variable with the folder that all workers of a run share; tests/conftest.py sets it."""
SAMPLES = ("sample", "kept", "every", "walled", "factory")
DELIVERY_STACKS = ("dev", "staging", "prod", "pipeline")


@functools.cache
def sample_assembly(name: str) -> Assembly:
    """Return a sample environment, synthesized by the first worker that needs it."""
    from stacks.environment import add_environment  # slow
    from tests.stacks.assemblies import Assembly, new_app
    from tests.stacks.sample_environments import write_sample
    from tritonstack.base.paths import Project
    from tritonstack.files.loading import load_workspace

    def synthesize(folder: Path) -> None:
        app = new_app(folder / "assembly")
        add_environment(app, workspace=write_sample(folder / "project", name))
        app.synth()

    folder = once(name, synthesize)
    return Assembly(load_workspace(Project(folder / "project"), name), folder / "assembly")


@functools.cache
def delivery_folder() -> Path:
    """Return a folder with a `project` that is delivered, and an assembly for each of its stacks."""
    from tests.delivery.delivery_project import write_delivery_project  # slow
    from tests.stacks.assemblies import new_app

    def synthesize(folder: Path) -> None:
        project = write_delivery_project(folder / "project")
        for name in DELIVERY_STACKS:
            app = new_app(folder / name)
            add_delivery_stack(app, name, project)
            app.synth()

    return once("delivery", synthesize)


def add_delivery_stack(app: cdk.App, name: str, project: Project | None = None) -> None:
    """Add one of the delivery stacks to an app."""
    from stacks.delivery import (
        DeliveryStack,  # slow
        delivery_target,
    )
    from stacks.pipeline import PipelineStack, line_of
    from tritonstack.base.paths import Project

    project = project or Project(delivery_folder() / "project")
    if name == "pipeline":
        PipelineStack(app, line=line_of(project, "main"))
    else:
        DeliveryStack(app, target=delivery_target(project, name))


def once(name: str, write: Callable[[Path], object]) -> Path:
    """Return a folder that the first worker of a run writes, and that all of them share."""
    shared = Path(os.environ[SHARED])
    folder, finished = shared / name, shared / f"{name}.finished"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            write(folder)
            finished.touch()
    return folder


def sample_template(stack: str) -> dict[str, Any]:
    """Return the template of one stack of a sample environment."""
    template: dict[str, Any] = json.loads(sample_assembly(stack.split("-")[1]).text(stack))
    return template


def sample_templates() -> dict[str, dict[str, Any]]:
    """Return the templates of all sample environments by the names of their stacks."""
    return {stack: sample_template(stack) for name in SAMPLES for stack in sample_assembly(name).stacks}


def delivery_templates() -> dict[str, dict[str, Any]]:
    """Return the templates of the delivery stacks by environment, and `pipeline`'s."""
    folder = delivery_folder()
    return {
        name: json.loads((folder / name / f"tritonstack-delivery-{name}.template.json").read_text())
        for name in DELIVERY_STACKS
    }
