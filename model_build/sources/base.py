"""What every source gives: a folder, the revision found there, and a hash of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.errors import SourceError, UnsafeWeightsError
from model_build.resources import require_space
from model_build.sources.safe_weights import check_weights
from model_build.sources.wanted import PICKLES, TRANSFORMERS, WantedFiles
from model_build.store.archive import is_safe_name
from tritonstack.base.documents import closest
from tritonstack.base.source_files import Files, list_files, require_same

CHUNK = 1 << 20
MOST_FILES = 5000
"""A model of more files than this is a folder that was named by mistake."""


@dataclass(frozen=True)
class FoundFolder:
    """What one kind of source found."""

    folder: Path
    revision: str


@dataclass(frozen=True)
class FetchedSource:
    """A model's files on this machine, and what exactly they are."""

    folder: Path
    revision: str
    weights_sha256: str
    listed: Files | None = None
    """Its files when it was fetched, before they were hashed."""

    @property
    def files(self) -> Files:
        """Its files by name."""
        return list_files(self.folder) if self.listed is None else self.listed

    def require_unchanged(self) -> None:
        """Raise UnsafeFileError if a file was added, removed, replaced or written since the fetch."""
        if self.listed is not None:
            require_same(self.listed, list_files(self.folder))


def fetched(found: FoundFolder, *, source: str, wanted: WantedFiles = TRANSFORMERS) -> FetchedSource:
    """The record of a folder, after checking that it holds weights which are safe to load."""
    files = list_files(found.folder)
    weights = wanted.weights_among(found.folder)
    if not weights:
        raise no_weights(list(files), source, wanted)
    check_weights(weights)
    return FetchedSource(found.folder, found.revision, hash_files(weights), files)


def check_listing(sizes: Mapping[str, int], *, source: str, into: Path) -> None:
    """Refuse what a source lists before any of it is fetched: unsafe names, too many files, too much."""
    for name in sizes:
        # A name from elsewhere becomes a path here.
        if not is_safe_name(name):
            raise SourceError(
                f"{source}: {name!r} is not a safe file name",
                remedy="use letters, digits, '.', '_', '-' and '/' only, and no '..'",
            )
    if len(sizes) > MOST_FILES:
        raise SourceError(
            f"{source}: there are {len(sizes)} model files, more than the {MOST_FILES} a model may have",
            remedy="name the folder of one model",
        )
    require_space(into, sum(sizes.values()), purpose=source)


def hash_files(files: Iterable[Path]) -> str:
    """SHA-256 of the files one after another; for a single file it is that file's own."""
    digest = hashlib.sha256()
    for file in files:
        add_file(digest, file)
    return digest.hexdigest()


def add_file(digest: Any, file: Path) -> None:
    """Add a file's bytes to a running hash."""
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)


def no_weights(names: Sequence[str], source: str, wanted: WantedFiles) -> SourceError:
    """What to say of a source that has these files, and no weights among them."""
    shown = ", ".join(sorted(names)[:8]) or "nothing"
    if wanted.exact:
        nearest = closest(wanted.weights[0], names)
        return SourceError(
            f"{source}: there is no file {wanted.weights[0]} (found: {shown})",
            remedy=f"did you mean {nearest!r}? Correct `recipe.file` in model.yaml"
            if nearest
            else "correct `recipe.file` in model.yaml, or the source",
        )
    pickles = sorted(name for name in names if any(Path(name).match(pattern) for pattern in PICKLES))
    if pickles:
        return UnsafeWeightsError(
            f"{source}: its weights are {', '.join(pickles)}, a pickle, which can run any code when loaded",
            remedy="in a place you can afford to lose, load the model once and save it again with "
            "`save_pretrained(folder)`, which writes safetensors; then use file://. If you know who made "
            "them, `trust: {pickle: <why>}` in model.yaml reads them as they are",
        )
    return SourceError(
        f"{source}: no {' or '.join(wanted.weights)} file there (found: {shown})",
        remedy="name the folder that holds them; weights that are a pickle need `trust: {pickle: <why>}`",
    )
