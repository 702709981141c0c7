"""Open what is to be imported, and recognize its kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from model_build.errors import ModelImportError
from model_build.importing.merlin import MerlinImport, is_merlin
from model_build.importing.mlflow import MLMODEL, read_mlmodel
from model_build.importing.records import ImportedModel, ImportRequest
from model_build.importing.repository import RepositoryImport, choose_entry, read_model, read_models
from model_build.linting.check import open_repository
from model_build.linting.hosting import leading_folder
from model_build.model_files import foreign_format
from model_build.repository.config import CONFIG_NAME
from tritonstack.base.error_kinds import UnknownNameError
from tritonstack.base.errors import reject

ADDRESS = re.compile(r"[a-z][a-z0-9]+:/")
"""The start of a URL; Path turns `s3://` into `s3:/`."""


class Importable(Protocol):
    """A model that can be imported."""

    @property
    def name(self) -> str:
        """Its own name."""

    def write(self, folder: Path, name: str, request: ImportRequest) -> ImportedModel:
        """Write its files into the new model's folder."""


@contextmanager
def open_import(request: ImportRequest) -> Iterator[Importable]:
    """Open a folder or an archive; raise UsageError if it has nothing that can be imported."""
    if ADDRESS.match(str(request.path)) and not request.path.exists():
        raise UnknownNameError(
            f"{request.path}: the import reads local files only",
            remedy="download it, for example with `aws s3 cp --recursive`, and name the folder or archive",
        )
    if request.path.is_file() and (foreign := foreign_format(request.path)) is not None:
        raise ModelImportError(
            f"{request.path} is {foreign.kind}, which cannot be imported", remedy=foreign.remedy
        )
    with open_repository(request.path) as opened:
        reject(opened.findings)
        root, shown = opened.root, opened.shown
        if (inner := leading_folder(root)) is not None:
            root, shown = inner, shown / inner.relative_to(root)
        yield _recognize(_mlflow_root(root), shown, request)


def _mlflow_root(root: Path) -> Path:
    """Return the only folder in an archive, if it has an MLmodel; else the archive's own root."""
    entries = list(root.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and (entries[0] / MLMODEL).is_file():
        return entries[0]
    return root


def _recognize(root: Path, shown: Path, request: ImportRequest) -> Importable:
    if (root / MLMODEL).is_file():
        return read_mlmodel(root, shown)
    if _is_model(root):
        config = read_model(root, root.name, shown).config
        name = config.name or _stem(request.path)
        # Read again, under the name that its configuration gives.
        return RepositoryImport({name: read_model(root, name, shown)}, shown.parent, name)
    models = {
        name: model for name, model in read_models(root, shown).items() if model.has_config or model.versions
    }
    if not models:
        if (foreign := foreign_format(root)) is not None:
            remedy = foreign.remedy.replace(str(root), str(shown))
            raise ModelImportError(f"{shown} is {foreign.kind}, which cannot be imported", remedy=remedy)
        raise ModelImportError(
            f"{shown} has nothing to import: no <model>/{CONFIG_NAME}, no {CONFIG_NAME}, no {MLMODEL}",
            remedy="name a Triton repository, one of its model folders, a model.tar.gz, a Merlin "
            "export, or an MLflow model",
        )
    if is_merlin(models) and request.entry is None:
        return MerlinImport(models, shown, _stem(request.path))
    return RepositoryImport(models, shown, choose_entry(models, shown, request.entry))


def _is_model(root: Path) -> bool:
    """Return whether a folder is one model: it has a configuration or a version folder."""
    versions = (entry for entry in root.iterdir() if entry.is_dir() and entry.name.isdecimal())
    return (root / CONFIG_NAME).is_file() or any(versions)


def _stem(path: Path) -> str:
    return path.resolve().name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
