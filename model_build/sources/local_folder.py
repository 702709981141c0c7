"""file://folder, relative to the folder of model.yaml."""

from __future__ import annotations

import hashlib
from pathlib import Path

from model_build.errors import SourceError
from model_build.sources.base import FoundFolder, add_file
from model_build.sources.wanted import CODE, TRANSFORMERS, WantedFiles


def fetch_folder(text: str, *, model_folder: Path, wanted: WantedFiles = TRANSFORMERS) -> FoundFolder:
    """A folder on this machine; its revision is a hash over every file that a build can read."""
    folder = (model_folder / text).resolve()
    if not folder.is_dir():
        raise SourceError(
            f"file://{text}: there is no folder {folder}",
            remedy="a file:// source is relative to the folder of its model.yaml",
        )
    return FoundFolder(folder, f"sha256:{_hash_of(folder, wanted)}")


def _hash_of(folder: Path, wanted: WantedFiles) -> str:
    digest = hashlib.sha256()
    code = (file.relative_to(folder).as_posix() for file in folder.rglob(CODE) if file.is_file())
    for name in sorted({*wanted.among(folder), *code}):
        digest.update(f"{name}\0{(folder / name).stat().st_size}\0".encode())
        add_file(digest, folder / name)
    return digest.hexdigest()
