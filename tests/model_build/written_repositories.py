"""Write the repositories of user-supplied models without checking them on a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from model_build.data import BuildContext, WrittenRepository
from model_build.progress import BuildSteps, ignore_progress
from model_build.recipes import recipe_for
from model_build.sources import FetchedSource, fetch_source, file_selection
from model_build.sources.base import hash_files
from model_build.store.archive import PackedArchive
from tests.manifests import manifest
from tritonstack.base.errors import FileViolation, InvalidFilesError, TritonstackError
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import Document
from tritonstack.facts.targets import parse_target
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.manifests import Manifest
from tritonstack.triton import TritonInstallation

SERVER = TritonInstallation(
    kind="embedded",
    root=Path("/nowhere"),
    executable=Path("/nowhere/tritonserver"),
    version="2.51.0",
    release="24.10",
    backends=("onnxruntime", "python"),
    backend_directory=Path("/nowhere"),
    cache_directory=Path("/nowhere"),
)


def write_repository(model: Document[ModelSpec], folder: Path, target: str = "cpu") -> WrittenRepository:
    """Write a model's repository by its recipe, without a server that checks it."""
    recipe = recipe_for(model)
    return recipe.write_repository(context_of(model, folder, target), BuildSteps(ignore_progress))


def context_of(model: Document[ModelSpec], folder: Path, target: str = "cpu") -> BuildContext:
    """Return what a build gives to a recipe, with the model's source."""
    spec = model.record
    source = FetchedSource(model.file.parent, "beside model.yaml", hash_files([]))
    if spec.source is not None:
        source = fetch_source(
            spec.source, model_folder=model.file.parent, cache_dir=folder, selection=file_selection(spec)
        )
    folder.mkdir(parents=True, exist_ok=True)
    return BuildContext(
        model=model,
        source=source,
        folder=folder,
        cache_dir=a_cache(folder / "cache"),
        target=parse_target(target),
        installation=SERVER,
        build_member=Path,
    )


def a_cache(folder: Path) -> Path:
    """Return a cache of its own, except for wheels and environments: these depend on their content only."""
    folder.mkdir(exist_ok=True)
    for name in ("wheels", "environments"):
        shared = find_project(Path(__file__)).cache_dir / f"test-{name}"
        shared.mkdir(parents=True, exist_ok=True)
        if not (folder / name).exists():
            (folder / name).symlink_to(shared)
    return folder


def manifest_of(packed: PackedArchive, *, model: str, **changes: Any) -> Manifest:
    """Return the manifest of an artifact with this archive."""
    archive = {
        "archive_bytes": packed.size_bytes,
        "unpacked_bytes": packed.unpacked_bytes,
        "files": packed.files,
    }
    return manifest(model, digest=packed.digest, **archive, **changes)


def tensors(written: WrittenRepository) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(spec.name, spec.datatype, spec.shape) for spec in (*written.inputs, *written.outputs)]


def violation_of(model: Document[ModelSpec], folder: Path) -> FileViolation:
    """Return the first violation for which a recipe rejects a model."""
    with pytest.raises(InvalidFilesError) as caught:
        write_repository(model, folder / "work")
    return caught.value.violations[0]


def error_of(model: Callable[[], Document[ModelSpec]], folder: Path) -> str:
    with pytest.raises(TritonstackError) as caught:
        write_repository(model(), folder / "work")
    return str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
