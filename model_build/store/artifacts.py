"""Artifacts on this machine, laid out like the artifact bucket: models/<model>/<digest>/.

The manifest is written last: a folder without one is what a killed build left, and does not count.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_build.errors import CorruptArtifactError
from model_build.store.locking import do_not_tell, only_one
from tritonstack.base.files import sha256_of, write_text_atomically
from tritonstack.base.naming import artifact_prefix
from tritonstack.records.examples import EXAMPLES_NAME, Examples
from tritonstack.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, Manifest, parse_manifest

REBUILD = "run `tritonstack build` again: it replaces the artifact"


@dataclass(frozen=True)
class BuildKey:
    """All that decides the bytes of an artifact."""

    spec_hash: str
    source_revision: str
    weights_sha256: str
    tools: Mapping[str, str]

    def made(self, manifest: Manifest) -> bool:
        """Whether an artifact came from exactly this."""
        theirs = (
            manifest.spec_hash,
            manifest.source_revision,
            manifest.weights_sha256,
            dict(manifest.tools),
        )
        return theirs == (self.spec_hash, self.source_revision, self.weights_sha256, dict(self.tools))


def verify_artifact(folder: Path) -> Manifest:
    """The manifest of an artifact whose archive and examples are, byte for byte, those that it names."""
    manifest = read_manifest(folder)
    _check_examples(folder / EXAMPLES_NAME, manifest)
    archive = folder / ARCHIVE_NAME
    if not archive.is_file():
        raise CorruptArtifactError(f"{archive} is missing", remedy=REBUILD)
    if (size := archive.stat().st_size) != manifest.archive_bytes:
        raise CorruptArtifactError(
            f"{archive} is corrupt: it has {size} bytes, its manifest says {manifest.archive_bytes}",
            remedy=REBUILD,
        )
    if (digest := sha256_of(archive)) != manifest.digest:
        raise CorruptArtifactError(
            f"{archive} is corrupt: its SHA-256 is {digest}, its manifest says {manifest.digest}",
            remedy=REBUILD,
        )
    return manifest


def _check_examples(file: Path, manifest: Manifest) -> None:
    if manifest.examples_sha256 is None:
        return
    if not file.is_file():
        raise CorruptArtifactError(f"{file} is missing", remedy=REBUILD)
    if (found := sha256_of(file)) != manifest.examples_sha256:
        raise CorruptArtifactError(
            f"{file} is corrupt: its SHA-256 is {found}, its manifest says {manifest.examples_sha256}",
            remedy=REBUILD,
        )


def read_manifest(folder: Path) -> Manifest:
    """The manifest in a folder that is named by its digest."""
    file = folder / MANIFEST_NAME
    try:
        manifest = parse_manifest(file.read_bytes(), origin=file)
    except FileNotFoundError:
        raise CorruptArtifactError(
            f"{folder} holds no {MANIFEST_NAME}, so there is no artifact in it", remedy=REBUILD
        ) from None
    if manifest.digest != folder.name:
        raise CorruptArtifactError(f"{file} is the manifest of {manifest.digest}", remedy=REBUILD)
    return manifest


class ArtifactStore:
    """The artifacts of one model on this machine."""

    def __init__(self, *, artifacts_dir: Path, model: str) -> None:
        self._root = artifacts_dir
        self._model = model
        self._building = artifacts_dir / ".building" / model

    @contextmanager
    def exclusive(self, *, on_wait: Callable[[], None] = do_not_tell) -> Iterator[Path]:
        """An empty folder to build in. One build of a model at a time; the lock ends with its process."""
        with only_one(self._building.parent / f"{self._model}.lock", on_wait=on_wait):
            self._clear_leftovers()
            self._building.mkdir()
            try:
                yield self._building
            finally:
                shutil.rmtree(self._building)

    def folders(self) -> list[Path]:
        """The folders of finished artifacts."""
        return sorted(file.parent for file in self._model_folder().glob(f"*/{MANIFEST_NAME}"))

    def keep(self, archive: Path, examples: Examples, manifest: Manifest) -> Path:
        """Put a finished artifact in its place; whatever lay there under the same digest is replaced."""
        folder = self._root / artifact_prefix(manifest.model, manifest.digest)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST_NAME).unlink(missing_ok=True)  # it may name other examples
        with archive.open("rb") as stream:
            os.fsync(stream.fileno())
        archive.replace(folder / ARCHIVE_NAME)
        write_text_atomically(folder / EXAMPLES_NAME, examples.to_json())
        write_text_atomically(folder / MANIFEST_NAME, manifest.to_json())
        return folder

    def discard(self, folder: Path) -> None:
        """Take an artifact out of the store, its manifest first."""
        (folder / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(folder)

    def _model_folder(self) -> Path:
        return self._root / "models" / self._model

    def _clear_leftovers(self) -> None:
        shutil.rmtree(self._building, ignore_errors=True)
        for folder in self._model_folder().glob("*"):
            if not (folder / MANIFEST_NAME).is_file():
                shutil.rmtree(folder)
