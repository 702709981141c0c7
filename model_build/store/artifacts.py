"""Local artifact store, laid out like the bucket: models/<model>/<digest>/.

The manifest is written last: a folder without one is left over from a killed build.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from model_build.errors import CorruptArtifactError
from model_build.progress import BuildSteps
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import only_one, sha256_of, short_digest, write_text_atomically
from tritonstack.base.naming import artifact_prefix
from tritonstack.facts.targets import Target, parse_target
from tritonstack.files.records.examples import EXAMPLES_NAME, Examples
from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, Manifest, parse_manifest

REBUILD = "run `tritonstack build` again: it replaces the artifact"


@dataclass(frozen=True)
class BuildKey:
    """Everything that decides an artifact's bytes."""

    spec_hash: str
    source_revision: str
    weights_sha256: str
    tools: Mapping[str, str]

    def made(self, manifest: Manifest) -> bool:
        """Return whether an artifact was built from exactly this."""
        revisions = (manifest.spec_hash, manifest.source_revision, manifest.weights_sha256)
        own = (self.spec_hash, self.source_revision, self.weights_sha256)
        return revisions == own and dict(manifest.tools) == dict(self.tools)


def verify_artifact(folder: Path) -> Manifest:
    """Return an artifact's manifest after checking its archive and examples against it."""
    manifest = read_manifest(folder)
    if manifest.examples_sha256 is not None:
        _check_file(folder / EXAMPLES_NAME, manifest.examples_sha256)
    _check_file(folder / ARCHIVE_NAME, manifest.digest, size_bytes=manifest.archive_bytes)
    return manifest


def _check_file(file: Path, sha256: str, *, size_bytes: int | None = None) -> None:
    """Compare a file with the manifest; the size first, because it is cheap."""
    if not file.is_file():
        raise CorruptArtifactError(f"{file} is missing", remedy=REBUILD)
    if size_bytes is not None and (size := file.stat().st_size) != size_bytes:
        raise CorruptArtifactError(
            f"{file} is corrupt: {size} bytes, manifest expects {size_bytes}", remedy=REBUILD
        )
    if (digest := sha256_of(file)) != sha256:
        raise CorruptArtifactError(
            f"checksum mismatch for {file}: got {digest}, manifest expects {sha256}", remedy=REBUILD
        )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest in a folder named after its digest."""
    file = folder / MANIFEST_NAME
    try:
        manifest = parse_manifest(file.read_bytes(), origin=file)
    except FileNotFoundError:
        raise CorruptArtifactError(f"{folder} has no {MANIFEST_NAME}", remedy=REBUILD) from None
    if manifest.digest != folder.name:
        raise CorruptArtifactError(f"{file} belongs to digest {manifest.digest}", remedy=REBUILD)
    return manifest


class ArtifactStore:
    """The local artifacts of one model."""

    def __init__(self, *, artifacts_dir: Path, model: str) -> None:
        self._root = artifacts_dir
        self._model = model
        self._building = artifacts_dir / ".building" / model

    @contextmanager
    def exclusive(self, *, on_wait: Callable[[], None] | None = None) -> Iterator[Path]:
        """Yield an empty build folder. One build per model at a time; the lock ends with its process."""
        with only_one(self._building.parent / f"{self._model}.lock", on_wait=on_wait):
            self._clear_leftovers()
            self._building.mkdir()
            try:
                yield self._building
            finally:
                shutil.rmtree(self._building)

    def folders(self) -> list[Path]:
        """Return the folders of complete artifacts."""
        return sorted(file.parent for file in self._model_folder().glob(f"*/{MANIFEST_NAME}"))

    def keep(self, archive: Path, examples: Examples, manifest: Manifest) -> Path:
        """Store a finished artifact, replacing any with the same digest."""
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
        """Delete an artifact, its manifest first."""
        (folder / MANIFEST_NAME).unlink(missing_ok=True)
        shutil.rmtree(folder)

    def _model_folder(self) -> Path:
        return self._root / "models" / self._model

    def _clear_leftovers(self) -> None:
        shutil.rmtree(self._building, ignore_errors=True)
        for folder in self._model_folder().glob("*"):
            if not (folder / MANIFEST_NAME).is_file():
                shutil.rmtree(folder)


def fits(target: Target, requested: Sequence[Target]) -> bool:
    """Return whether an artifact for `target` runs on one of the requested targets; no Python bound means
    any."""
    return any(target in (item, Target(item.hardware)) for item in requested)


def has_artifact_of(store: ArtifactStore, spec_hash: str) -> bool:
    """Return whether the store has any build of this specification, complete or not."""
    return any(manifest.spec_hash == spec_hash for _, manifest in _stored(store))


def find_artifact(
    store: ArtifactStore,
    key: BuildKey,
    requested: Sequence[Target],
    steps: BuildSteps,
    *,
    choices: Mapping[str, str],
) -> tuple[Path, Manifest] | None:
    """Return the artifact that `key` would build again; report and delete a corrupt one.

    `choices` are those recorded for `precision: auto`: other choices make another artifact.
    """
    for folder, manifest in _stored(store):
        matches = fits(parse_target(manifest.target), requested) and key.made(manifest)
        # Artifacts of an earlier version lack examples; rebuild them, with identical archive bytes.
        matches = matches and manifest.examples_sha256 is not None
        matches = matches and manifest.choices.items() <= {**manifest.choices, **choices}.items()
        if matches and _is_sound(store, folder, steps):
            return folder, manifest
    return None


def _stored(store: ArtifactStore) -> Iterator[tuple[Path, Manifest]]:
    for folder in store.folders():
        try:
            yield folder, read_manifest(folder)
        except TritonstackError:
            continue  # other version or wrong folder: not the artifact in question


def _is_sound(store: ArtifactStore, folder: Path, steps: BuildSteps) -> bool:
    try:
        steps.run("existing", lambda: verify_artifact(folder), lambda manifest: short_digest(manifest.digest))
    except CorruptArtifactError:
        store.discard(folder)
        return False
    return True
