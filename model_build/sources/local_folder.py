"""file://folder, relative to the folder of model.yaml."""

from __future__ import annotations

import hashlib
from pathlib import Path

from model_build.errors import SourceError
from model_build.sources.base import FoundFolder, add_file
from model_build.sources.safe_weights import check_weights
from tritonstack.base.source_files import list_files, source_folder
from tritonstack.files.sources.model_files import CODE_SUFFIX
from tritonstack.files.sources.source_selection import TRANSFORMERS, FileSelection


def fetch_folder(
    text: str, *, model_folder: Path, selection: FileSelection = TRANSFORMERS, trusted: bool = False
) -> FoundFolder:
    """Read a local folder; its revision is a hash over every wanted file.

    It must be inside the model's folder unless `trusted`.
    """
    folder = source_folder(model_folder, text, trusted=trusted)
    if not folder.is_dir():
        raise SourceError(
            f"file://{text}: folder not found: {folder}",
            remedy="name the folder that has the model, relative to the folder of model.yaml",
        )
    check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
    return FoundFolder(folder, f"sha256:{_hash_of(folder, selection)}")


def _hash_of(folder: Path, selection: FileSelection) -> str:
    digest = hashlib.sha256()
    for name, file in list_files(folder).items():
        if selection.holds(name) or name.endswith(CODE_SUFFIX):
            digest.update(f"{name}\0{file.size}\0".encode())
            add_file(digest, file.path)
    return digest.hexdigest()
