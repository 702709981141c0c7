"""A tiny model, and the server that checks artifacts."""

from pathlib import Path

import pytest

from model_build.build import BuildFolders
from model_build.data.graphs import ExportedGraph
from model_build.sources import FetchedSource, fetch_source
from tests.model_build.tiny import save_tiny_model
from tritonstack.base.paths import find_project
from tritonstack.spec.models.recipes import TextEmbeddingRecipe


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "weights")


@pytest.fixture(scope="session")
def tiny_source(tiny_folder: Path) -> FetchedSource:
    return fetch_source(f"file://{tiny_folder.name}", model_folder=tiny_folder.parent, cache_dir=tiny_folder)


@pytest.fixture(scope="session")
def tiny_recipe() -> TextEmbeddingRecipe:
    return TextEmbeddingRecipe(kind="text-embedding", max_length=24)


@pytest.fixture(scope="session")
def tiny_graph(
    tiny_source: FetchedSource, tiny_recipe: TextEmbeddingRecipe, tmp_path_factory: pytest.TempPathFactory
) -> ExportedGraph:
    from model_build.exporters.text_framework import TextFramework

    framework = TextFramework(source=tiny_source, recipe=tiny_recipe)
    return framework.export(tmp_path_factory.mktemp("graph") / "1")


@pytest.fixture
def folders(tmp_path: Path) -> BuildFolders:
    """The test's own store and cache, and the server that `make server` installs.

    All tests share downloaded wheels.
    """
    project = find_project(Path(__file__))
    (tmp_path / "cache").mkdir()
    (wheels := project.cache_dir / "test-wheels").mkdir(parents=True, exist_ok=True)
    (tmp_path / "cache" / "wheels").symlink_to(wheels)
    return BuildFolders(tmp_path / "artifacts", tmp_path / "cache", project.server_dir)
