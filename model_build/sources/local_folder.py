"""file://folder, relative to the folder of model.yaml."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from model_build.errors import SourceError
from model_build.resources import require_space
from model_build.sources.base import FoundFolder, add_file
from model_build.sources.safe_weights import check_weights
from tritonstack.base.source_files import SourceFile, copy_file, list_files, source_folder
from tritonstack.project.files.model_files import CODE_SUFFIX
from tritonstack.project.files.source_selection import TRANSFORMERS, FileSelection


def fetch_folder(
    text: str,
    *,
    model_folder: Path,
    into: Path | None = None,
    selection: FileSelection = TRANSFORMERS,
    trusted: bool = False,
) -> FoundFolder:
    """Copy the wanted files of a local folder; the revision is a hash over the copies.

    The folder must be inside the model's folder unless `trusted`. Without `into`, it is read in place.
    """
    folder = source_folder(model_folder, text, trusted=trusted)
    if not folder.is_dir():
        raise SourceError(
            f"file://{text}: folder not found: {folder}",
            remedy="name the folder that has the model, relative to the folder of model.yaml",
        )
    check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
    files = list_files(folder)
    wanted = [file for name, file in files.items() if selection.holds(name) or name.endswith(CODE_SUFFIX)]
    if into is None:
        return FoundFolder(folder, f"sha256:{_hash_of(wanted)}")
    require_space(into, sum(file.size for file in wanted), purpose=f"copying file://{text}")
    for file in wanted:
        copy_file(file, into / file.name)
    copies = list_files(into)
    names = {file.name for file in wanted}
    return FoundFolder(
        into,
        f"sha256:{_hash_of(copies[name] for name in names & copies.keys())}",
        tuple(files.keys() - names),
    )


def _hash_of(files: Iterable[SourceFile]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.name}\0{file.size}\0".encode())
        add_file(digest, file.path)
    return digest.hexdigest()
