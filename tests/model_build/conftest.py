"""A tiny model, the server that checks artifacts, and what builds fetch from: AWS and a package index."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from model_build.build import BuildFolders
from model_build.data import ExportedGraph, FrameworkFiles
from model_build.sources import FetchedSource, fetch_source
from tests.model_build.tiny import save_tiny_model
from tests.model_build.written_repositories import a_cache
from tests.moto_aws import simulated_aws
from tritonstack.base.paths import find_project
from tritonstack.files.model.recipes import TextEmbeddingRecipe


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
    from model_build.exporters.texts import TextFramework

    framework = TextFramework(FrameworkFiles(tiny_source.folder, tiny_recipe))
    return framework.export(tmp_path_factory.mktemp("graph") / "1")


@pytest.fixture
def folders(tmp_path: Path) -> BuildFolders:
    """The test's own store and cache, and the server that `make server` installs."""
    return BuildFolders(
        tmp_path / "artifacts", a_cache(tmp_path / "cache"), find_project(Path(__file__)).server_dir
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder from which pip installs."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a simulated AWS, which this process's sessions reach by default."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with simulated_aws():
        yield boto3.client("s3")
