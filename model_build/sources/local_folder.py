"""file://folder, relative to the folder of model.yaml."""

from __future__ import annotations

import hashlib
from pathlib import Path

from model_build.errors import SourceError
from model_build.sources.base import FoundFolder, add_file, is_model_file


def fetch_folder(text: str, *, model_folder: Path) -> FoundFolder:
    """A folder on this machine; its revision is a hash over every file that a build can read."""
    folder = (model_folder / text).resolve()
    if not folder.is_dir():
        raise SourceError(
            f"file://{text}: there is no folder {folder}",
            remedy="a file:// source is relative to the folder of its model.yaml",
        )
    return FoundFolder(folder, f"sha256:{_hash_of(folder)}")


def _hash_of(folder: Path) -> str:
    digest = hashlib.sha256()
    names = (file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
    for name in sorted(names):
        if is_model_file(name) or name.endswith(".py"):
            digest.update(f"{name}\0{(folder / name).stat().st_size}\0".encode())
            add_file(digest, folder / name)
    return digest.hexdigest()
