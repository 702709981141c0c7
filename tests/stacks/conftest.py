"""The sample environments, and what synthesizes others."""

import shutil
from collections.abc import Callable

import aws_cdk as cdk
import pytest

from stacks.environment import add_environment
from tests.sample_templates import sample_assembly
from tests.stacks.assemblies import ROOT, Assembly, Synthesize, new_app, write_project
from tritonstack.base.paths import Project
from tritonstack.files.project.workspace import Workspace


@pytest.fixture(scope="session")
def bare_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    """Make a project without locks."""
    return lambda: write_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """Synthesize an environment; `prepare` can add to the app first."""

    def run(workspace: Workspace, prepare: Callable[[cdk.App], None] = lambda app: None) -> Assembly:
        folder = tmp_path_factory.mktemp("assembly")
        app = new_app(folder)
        add_environment(app, workspace=workspace)
        prepare(app)
        app.synth()
        return Assembly(workspace, folder)

    return run


@pytest.fixture(scope="session")
def sample() -> Assembly:
    """An environment without retained data, with one endpoint on a CPU and one on a GPU."""
    return sample_assembly("sample")


@pytest.fixture(scope="session")
def retaining() -> Assembly:
    """An environment with retained data."""
    return sample_assembly("kept")


@pytest.fixture(scope="session")
def every() -> Assembly:
    """An environment with its own network and an endpoint of every kind."""
    return sample_assembly("every")


@pytest.fixture(scope="session")
def walled() -> Assembly:
    """An environment with its own network, and a boundary around its roles."""
    return sample_assembly("walled")


@pytest.fixture(scope="session")
def factory() -> Assembly:
    """An environment whose models are built on every kind of machine."""
    return sample_assembly("factory")


@pytest.fixture(scope="session")
def locked_repository(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """This repository's models and environments, with a complete lock for each."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("models", "environments", "containers"):
        shutil.copytree(ROOT / name, folder / name)
    project = Project(folder)
    for file in project.environments_dir.glob("*.lock.yaml"):
        file.unlink()
    return project
