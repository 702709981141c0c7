"""Copy a model before it is hashed and built: what is packed is what was hashed, whoever writes meanwhile.

Large weights are copied too. A build holds several copies of them anyway, in its graphs, the archive, and the
unpacked archive that is served; copying takes a fraction of an export or of the compression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from model_build.sources import FetchedSource
from tritonstack.base.errors import InvalidFilesError, TritonstackError
from tritonstack.base.source_files import copy_file, find_file, leaves_folder
from tritonstack.base.yaml import Document
from tritonstack.project.files.model_files import FILE_SCHEME, ModelFiles, helper_files, model_files
from tritonstack.project.files.model_hashes import file_digests, hash_model
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.recipes import PythonRecipe


class BuildCopy:
    """The files of a model in a folder of the build."""

    def __init__(self, model: Document[ModelSpec], folder: Path) -> None:
        self._model, self._folder, self._listed = model, folder, model_files(model)
        recipe = model.record.recipe
        beside_code = (folder / recipe.code).parent if isinstance(recipe, PythonRecipe) else folder
        for name, file in self._listed.own.items():
            copy_file(file, folder / name)
        for name, file in self._listed.helpers.items():
            copy_file(file, beside_code / name)
        self.document = replace(model, file=folder / model.file.name)

    @property
    def source_folder(self) -> Path:
        """The folder for the copy of a `file://` source."""
        text = (self._model.record.source or "").removeprefix(FILE_SCHEME)
        return self._folder.with_name("source") if leaves_folder(text) else self._folder / text

    def hash(self, models: Mapping[str, Document[ModelSpec]], source: FetchedSource) -> str:
        """Return the hash of the model, of the copies where the build reads them."""
        name, copies = self._model.record.name, source.files
        own = {own: file for own in self._listed.own if (file := find_file(self._folder, own))}
        files = ModelFiles(
            own,
            helper_files(self.document),
            {inner: copies.get(inner, file) for inner, file in self._listed.source.items()},
        )
        digests = file_digests(self.document, files)
        return hash_model(
            name, models, lambda member: digests if member == name else file_digests(models[member])
        ).value

    def name_originals(self, error: TritonstackError) -> None:
        """Name the files that were copied, not the copies, in an error."""
        copy, original = str(self._folder), str(self._model.file.parent)
        error.message = error.message.replace(copy, original)
        if isinstance(error, InvalidFilesError):
            error.violations = tuple(
                replace(violation, file=Path(str(violation.file).replace(copy, original)))
                for violation in error.violations
            )
            error.message = "\n".join(map(str, error.violations))
