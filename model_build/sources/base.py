"""What every source gives: a folder, the revision found there, and a hash of its weights."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_build.errors import SourceError, UnsafeWeightsError

MODEL_FILES = ("*.safetensors", "*.json", "*.txt", "*.model")
"""Weights that cannot run code, configuration, vocabularies."""
WEIGHTS = "*.safetensors"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
CHUNK = 1 << 20


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


def is_model_file(name: str) -> bool:
    """Whether a file of this name is fetched at all."""
    return any(fnmatch.fnmatchcase(name.rpartition("/")[2], pattern) for pattern in MODEL_FILES)


def fetched(found: FoundFolder, *, source: str) -> FetchedSource:
    """The record of a folder, after checking that it holds weights which are safe to load."""
    weights = sorted(found.folder.glob(WEIGHTS))
    if not weights:
        raise _no_weights(found.folder, source)
    return FetchedSource(found.folder, found.revision, hash_files(weights))


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


def _no_weights(folder: Path, source: str) -> SourceError:
    if not folder.is_dir():
        return SourceError(f"{source}: there is no folder {folder}")
    names = sorted(entry.name for entry in folder.iterdir())
    pickles = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in PICKLES)]
    if pickles:
        return UnsafeWeightsError(
            f"{source}: its weights are {', '.join(pickles)}, a pickle, which can run any code when loaded",
            remedy="in a place you can afford to lose, load the model once and save it again with "
            "`save_pretrained(folder)`, which writes safetensors; then use file://",
        )
    return SourceError(
        f"{source}: no {WEIGHTS} file there (found: {', '.join(names[:8]) or 'nothing'})",
        remedy="name the folder that holds the weights; a model whose weights are a pickle is not fetched",
    )
